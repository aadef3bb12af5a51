-- Tell how a campaign stands, all of it at one moment; changes nothing.
--
-- KEYS  1 h   2 r   3 u   4 d   5 s                                     (see lua/__init__.py)
-- ARGV  1 request   of which to tell the reservation too; empty = none
--       2 now_ms    the server's clock
--       3 ahead_ms  a deadline further ahead than this was set by a clock that has been set back since: it is over, too
-- Returns one of
--       OK gen state stocked avail total units requests members overdue config stock reservation
--                   `stocked` 0 = no limit; `overdue` counts reservations past their deadline;
--                   `reservation` is "qty|deadline|token|fingerprint|member", empty where the request has none
--       NOGEN gen   nothing is installed; `gen` is the one that is being built, empty = none
--       CORRUPT what | BAD_ARG position
--
-- Atomic, because what is reserved and what is left are shown side by side and compared with the database.

local h, r, u, d, s = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local function whole(text, least)
  local n = text and string.find(text, '^%-?%d+$') and tonumber(text)
  if n and n >= least and n <= 9007199254740991 then return n end
end

if not ARGV[1] then return {'BAD_ARG', 1} end
local now, ahead = whole(ARGV[2], 0), whole(ARGV[3], 0)
if not now then return {'BAD_ARG', 2} end
if not ahead then return {'BAD_ARG', 3} end
local f = redis.call('HMGET', h, 'gen', 'state', 'avail', 'total', 'units', 'nr', 'nu', 'config', 'stock', 'stocked')
if not f[1] or f[2] == 'building' then return {'NOGEN', f[1] or ''} end
local n = {}
for i = 3, 10 do
  n[i] = whole(f[i], -9007199254740991)
  if not n[i] then return {'CORRUPT', 'h'} end
end
if redis.call('HLEN', r) ~= n[6] then return {'CORRUPT', 'r'} end
if redis.call('ZCARD', d) ~= n[6] then return {'CORRUPT', 'd'} end
if redis.call('XLEN', s) ~= n[6] then return {'CORRUPT', 's'} end
if redis.call('HLEN', u) ~= n[7] then return {'CORRUPT', 'u'} end
local overdue = redis.call('ZCOUNT', d, '-inf', '(' .. ARGV[2]) + redis.call('ZCOUNT', d, '(' .. now + ahead, '+inf')
local reservation = ARGV[1] ~= '' and redis.call('HGET', r, ARGV[1]) or ''
return {'OK', f[1], f[2], n[10], n[3], n[4], n[5], n[6], n[7], overdue, n[8], n[9], reservation}
