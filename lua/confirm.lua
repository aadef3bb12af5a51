-- Close reservations that the database has granted: their members keep the coupons, nobody lands them again.
--
-- KEYS  1 h   2 r   3 u   4 d   5 s                                     (see lua/__init__.py)
-- ARGV  1 gen       generation under which they were reserved
--       2.. request, token           pairs, a few hundred at most: the caller's idempotency key, and what `reserve`
--                                    answered
-- Returns one of
--       OK avail how...             `avail` is what is left (-1 = no limit); then for each pair one of
--           OK                      closed
--           UNKNOWN                 no such reservation is open: closed before, or never made
--           WRONG_STATE             the request is reserved anew, under another token: not the caller's to close
--       NOGEN | STALE_GEN gen | CORRUPT what
--
-- Atomic, because reservations, their places in the queue and the counters must go together: a rival that lands the
-- same request closes it once, whoever comes second reads UNKNOWN. What is damaged is found before the first write.

local h, r, u, d, s = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local function whole(text, least)
  local n = text and string.find(text, '^%-?%d+$') and tonumber(text)
  if n and n >= least and n <= 9007199254740991 then return n end
end

local f = redis.call('HMGET', h, 'gen', 'state', 'avail', 'stocked', 'nr', 'nu', 'units')
if not f[1] then return {'NOGEN'} end
if f[1] ~= ARGV[1] then return {'STALE_GEN', f[1]} end
if f[2] == 'building' then return {'NOGEN'} end
local nr, nu, units = whole(f[5], 0), whole(f[6], 0), whole(f[7], 0)
if not (whole(f[3], -9007199254740991) and whole(f[4], 0) and nr and nu and units) then return {'CORRUPT', 'h'} end
if redis.call('HLEN', r) ~= nr then return {'CORRUPT', 'r'} end
if redis.call('ZCARD', d) ~= nr then return {'CORRUPT', 'd'} end
if redis.call('XLEN', s) ~= nr then return {'CORRUPT', 's'} end
if redis.call('HLEN', u) ~= nu then return {'CORRUPT', 'u'} end

local answer = {'OK', f[4] == '1' and tonumber(f[3]) or -1}
local requests, ids, closed = {}, {}, {}
for i = 2, #ARGV, 2 do
  local request = ARGV[i]
  local known = not closed[request] and redis.call('HGET', r, request)
  if not known then
    answer[#answer + 1] = 'UNKNOWN'
  else
    local text, token, id = string.match(known, '^(%d+)|%d+|(%d+/([%d%-]+))|%x+|.+$')
    local qty = whole(text, 1)
    if not qty or qty > units then return {'CORRUPT', 'r'} end
    if token ~= ARGV[i + 1] then
      answer[#answer + 1] = 'WRONG_STATE'
    else
      answer[#answer + 1] = 'OK'
      closed[request], units = true, units - qty
      requests[#requests + 1], ids[#ids + 1] = request, id
    end
  end
end
if #requests == 0 then return answer end

redis.call('HDEL', r, unpack(requests))
redis.call('ZREM', d, unpack(requests))
redis.call('XDEL', s, unpack(ids))
redis.call('HSET', h, 'nr', nr - #requests, 'units', units)
return answer
