-- Bring an edit of the campaign to where claims are admitted: pause, window, limit, rate, a raise or cut of the stock.
--
-- KEYS  1 h   2 r   3 u   4 d   5 s                                     (see lua/__init__.py)
-- ARGV  1 gen          generation
--       2 config       place in the feed at which the database was read, >= 0: what is older than the last is ignored
--       3 state        open | paused
--       4 limit        coupons per member, >= 0
--       5 from_ms      start of the window, 0 = none
--       6 until_ms     end of the window, that instant excluded, 0 = none
--       7 rate         claims a second, 0 = as many as come
--       8 burst        claims at once after a quiet time, >= 1 where there is a rate
--       9 stock        version of the stock's account in the database, >= 0
--       10 total       coupons put in so far; what it grew or shrank by since the last time is available, or is not
--       11 stocked     1 = there is a stock, 0 = unlimited; a change is no edit but a new generation
-- Returns one of
--       OK avail                    as asked, or newer than asked; `avail` is what is left (-1 = no limit)
--       NOGEN | STALE_GEN gen | CORRUPT what | BAD_ARG position
--
-- Atomic, because a raise is the difference to the total that is known here, and two of them at once would count one
-- twice. The same call again changes nothing. Renews the lives of all keys.

local h, r, u, d, s = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local MOST = 9007199254740991

local function whole(text, least)
  local n = text and string.find(text, '^%-?%d+$') and tonumber(text)
  if n and n >= least and n <= MOST then return n end
end

local least = {1, 0, false, 0, 0, 0, 0, 0, 0, 0, 0}
for position = 1, 11 do
  if least[position] and not whole(ARGV[position], least[position]) then return {'BAD_ARG', position} end
end
if ARGV[3] ~= 'open' and ARGV[3] ~= 'paused' then return {'BAD_ARG', 3} end
if tonumber(ARGV[7]) > 0 and tonumber(ARGV[8]) < 1 then return {'BAD_ARG', 8} end
local f = redis.call('HMGET', h, 'gen', 'state', 'avail', 'stocked', 'total', 'config', 'stock', 'rate', 'burst',
  'life_ms')
if not f[1] then return {'NOGEN'} end
if f[1] ~= ARGV[1] then return {'STALE_GEN', f[1]} end
if f[2] == 'building' then return {'NOGEN'} end
local avail, total, life = whole(f[3], -MOST), whole(f[5], 0), whole(f[10], 1)
local config, stock = whole(f[6], 0), whole(f[7], 0)
if not (avail and total and config and stock and life) then return {'CORRUPT', 'h'} end
if f[4] ~= ARGV[11] then return {'CORRUPT', 'stocked'} end

if tonumber(ARGV[2]) >= config then
  redis.call('HSET', h, 'config', ARGV[2], 'state', ARGV[3], 'limit', ARGV[4], 'from_ms', ARGV[5], 'until_ms', ARGV[6],
    'rate', ARGV[7], 'burst', ARGV[8])
  if f[8] ~= ARGV[7] or f[9] ~= ARGV[8] then redis.call('HSET', h, 'tokens', tonumber(ARGV[8]) * 1000) end
end
if tonumber(ARGV[9]) >= stock then
  avail = avail + tonumber(ARGV[10]) - total
  redis.call('HSET', h, 'stock', ARGV[9], 'total', ARGV[10], 'avail', avail)
end
for _, key in ipairs({h, r, u, d, s}) do redis.call('PEXPIRE', key, life) end
return {'OK', f[4] == '1' and avail or -1}
