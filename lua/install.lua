-- Open a campaign under the generation that `close` announced, with what was read from the database.
--
-- KEYS  1 h   2 r   3 u   4 d   5 s   6 staged                          (see lua/__init__.py)
--       `staged` is a hash member -> coupons held, loaded in chunks beforehand; it becomes `u`
-- ARGV  1 gen          generation, >= 1
--       2 members      fields of `staged`, >= 0
--       3 version      place in the feed at which the database was read, >= 0: grants up to there are in it
--       4 stocked      1 = there is a stock, 0 = unlimited
--       5 stock        version of the stock's account when it was read, >= 0
--       6 total        coupons put in so far, >= 0
--       7 avail        coupons that the database has available, >= 0
--       8 life_ms      how long the keys outlive their last use
-- Returns one of
--       OK
--       STALE_GEN gen   another generation was announced meanwhile, or nothing was ("" then)
--       CORRUPT staged  the staged hash does not have `members` fields
--       BAD_ARG position
--
-- Leaves the campaign closed: `configure` sets window, limit and rate, and opens it. Atomic, because a claim between
-- the swap of one key and the next would see one campaign's stock and another one's members. The swap is a RENAME and
-- costs the same for any number of members.

local h, r, u, d, s, staged = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]

local function whole(text, least)
  local n = text and string.find(text, '^%-?%d+$') and tonumber(text)
  if n and n >= least and n <= 9007199254740991 then return n end
end

local least = {1, 0, 0, 0, 0, 0, 0, 1}
for position = 1, 8 do
  if not whole(ARGV[position], least[position]) then return {'BAD_ARG', position} end
end
if ARGV[4] ~= '0' and ARGV[4] ~= '1' then return {'BAD_ARG', 4} end
local f = redis.call('HMGET', h, 'gen', 'state')
if f[1] ~= ARGV[1] or f[2] ~= 'building' then return {'STALE_GEN', f[1] or ''} end
local members = tonumber(ARGV[2])
if redis.call('HLEN', staged) ~= members then return {'CORRUPT', 'staged'} end

redis.call('UNLINK', r, u, d, s)
if members > 0 then
  redis.call('RENAME', staged, u)
  redis.call('PEXPIRE', u, ARGV[8])
end
redis.call('HSET', h, 'state', 'paused', 'nu', members, 'version', ARGV[3], 'stocked', ARGV[4], 'stock', ARGV[5],
  'total', ARGV[6], 'avail', ARGV[7], 'life_ms', ARGV[8], 'nr', 0, 'units', 0, 'limit', 0, 'from_ms', 0, 'until_ms', 0,
  'rate', 0, 'burst', 0, 'tokens', 0, 'refilled_ms', 0, 'config', 0)
redis.call('PEXPIRE', h, ARGV[8])
return {'OK'}
