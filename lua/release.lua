-- Undo a reservation that the database has refused: units and the member's count go back.
--
-- KEYS  1 h   2 r   3 u   4 d   5 s                                     (see lua/__init__.py)
-- ARGV  1 gen       generation under which it was reserved
--       2 request   the caller's idempotency key
--       3 token     of the reservation, as `reserve` answered
-- Returns one of
--       OK avail                    undone; `avail` is what is left (-1 = no limit)
--       UNKNOWN                     no such reservation is open: closed before, or never made
--       WRONG_STATE                 the request is reserved anew, under another token: not the caller's to undo
--       NOGEN | STALE_GEN gen | CORRUPT what
--
-- Atomic, because a unit that is given back must leave its reservation in the same step: given back twice it would be
-- granted twice.

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

local known = redis.call('HGET', r, ARGV[2])
if not known then return {'UNKNOWN'} end
local text, token, id, member = string.match(known, '^(%d+)|%d+|(%d+/([%d%-]+))|%x+|(.+)$')
local qty = whole(text, 1)
if not qty or qty > units then return {'CORRUPT', 'r'} end
if token ~= ARGV[3] then return {'WRONG_STATE'} end
local held = whole(redis.call('HGET', u, member), 1)
if not held or held < qty then return {'CORRUPT', 'u'} end

redis.call('HDEL', r, ARGV[2])
redis.call('ZREM', d, ARGV[2])
redis.call('XDEL', s, id)
if held == qty then
  redis.call('HDEL', u, member)
  nu = nu - 1
else
  redis.call('HINCRBY', u, member, -qty)
end
if stocked == 1 then avail = avail + qty end
redis.call('HSET', h, 'avail', avail, 'nr', nr - 1, 'nu', nu, 'units', units - qty)
return {'OK', stocked == 1 and avail or -1}
