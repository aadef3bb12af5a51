-- Undo reservations that the database has refused: units and the members' counts go back.
--
-- KEYS  1 h   2 r   3 u   4 d   5 s                                     (see lua/__init__.py)
-- ARGV  1 gen       generation under which they were reserved
--       2.. request, token           pairs, a few hundred at most: the caller's idempotency key, and what `reserve`
--                                    answered
-- Returns one of
--       OK avail how...             `avail` is what is left (-1 = no limit); then for each pair one of
--           OK                      undone
--           UNKNOWN                 no such reservation is open: closed before, or never made
--           WRONG_STATE             the request is reserved anew, under another token: not the caller's to undo
--       NOGEN | STALE_GEN gen | CORRUPT what
--
-- Atomic, because a unit that is given back must leave its reservation in the same step: given back twice it would be
-- granted twice. What is damaged is found before the first write.

local h, r, u, d, s = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local function whole(text, least)
  local n = text and string.find(text, '^%-?%d+$') and tonumber(text)
  if n and n >= least and n <= 9007199254740991 then return n end
end

local f = redis.call('HMGET', h, 'gen', 'state', 'avail', 'stocked', 'nr', 'nu', 'units')
if not f[1] then return {'NOGEN'} end
if f[1] ~= ARGV[1] then return {'STALE_GEN', f[1]} end
if f[2] == 'building' then return {'NOGEN'} end
local avail, stocked = whole(f[3], -9007199254740991), whole(f[4], 0)
local nr, nu, units = whole(f[5], 0), whole(f[6], 0), whole(f[7], 0)
if not (avail and stocked and nr and nu and units) then return {'CORRUPT', 'h'} end
if redis.call('HLEN', r) ~= nr then return {'CORRUPT', 'r'} end
if redis.call('ZCARD', d) ~= nr then return {'CORRUPT', 'd'} end
if redis.call('XLEN', s) ~= nr then return {'CORRUPT', 's'} end
if redis.call('HLEN', u) ~= nu then return {'CORRUPT', 'u'} end

local how, requests, ids, undone, held = {}, {}, {}, {}, {}
for i = 2, #ARGV, 2 do
  local request = ARGV[i]
  local known = not undone[request] and redis.call('HGET', r, request)
  if not known then
    how[#how + 1] = 'UNKNOWN'
  else
    local text, token, id, member = string.match(known, '^(%d+)|%d+|(%d+/([%d%-]+))|%x+|(.+)$')
    local qty = whole(text, 1)
    if not qty or qty > units then return {'CORRUPT', 'r'} end
    if token ~= ARGV[i + 1] then
      how[#how + 1] = 'WRONG_STATE'
    else
      local has = held[member] or whole(redis.call('HGET', u, member), 1)
      if not has or has < qty then return {'CORRUPT', 'u'} end
      how[#how + 1] = 'OK'
      undone[request], held[member], units = true, has - qty, units - qty
      requests[#requests + 1], ids[#ids + 1] = request, id
      if stocked == 1 then avail = avail + qty end
    end
  end
end

local answer = {'OK', stocked == 1 and avail or -1, unpack(how)}
if #requests == 0 then return answer end

redis.call('HDEL', r, unpack(requests))
redis.call('ZREM', d, unpack(requests))
redis.call('XDEL', s, unpack(ids))
for member, has in pairs(held) do
  if has == 0 then
    redis.call('HDEL', u, member)
    nu = nu - 1
  else
    redis.call('HSET', u, member, has)
  end
end
redis.call('HSET', h, 'avail', avail, 'nr', nr - #requests, 'nu', nu, 'units', units)
return answer
