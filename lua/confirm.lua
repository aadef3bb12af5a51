-- Close a reservation that the database has granted: the member keeps the coupons, nobody lands it again.
--
-- KEYS  1 h   2 r   3 u   4 d   5 s                                     (see lua/__init__.py)
-- ARGV  1 gen       generation under which it was reserved
--       2 request   the caller's idempotency key
--       3 token     of the reservation, as `reserve` answered
-- Returns one of
--       OK avail                    closed; `avail` is what is left (-1 = no limit)
--       UNKNOWN                     no such reservation is open: closed before, or never made
--       WRONG_STATE                 the request is reserved anew, under another token: not the caller's to close
--       NOGEN | STALE_GEN gen | CORRUPT what
--
-- Atomic, because the reservation, its place in the queue and the counters must go together: a rival that lands the
-- same request closes it once, whoever comes second reads UNKNOWN.

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

local known = redis.call('HGET', r, ARGV[2])
if not known then return {'UNKNOWN'} end
local text, token, id = string.match(known, '^(%d+)|%d+|(%d+/([%d%-]+))|%x+|.+$')
local qty = whole(text, 1)
if not qty or qty > units then return {'CORRUPT', 'r'} end
if token ~= ARGV[3] then return {'WRONG_STATE'} end

redis.call('HDEL', r, ARGV[2])
redis.call('ZREM', d, ARGV[2])
redis.call('XDEL', s, id)
redis.call('HSET', h, 'nr', nr - 1, 'units', units - qty)
return {'OK', f[4] == '1' and tonumber(f[3]) or -1}
