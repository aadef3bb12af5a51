-- Tell that coupons were granted by another way in (a batch, a gift, a till), were lent to a till, or came back.
--
-- KEYS  1 h   2 u                                                       (see lua/__init__.py)
-- ARGV  1 version   place in the feed right behind that, >= 0
--       2 units     coupons that are available now and were not before; below 0 = taken
--       3.. member, count   pairs, perhaps none: coupons that the member holds more (below 0: fewer) than before
-- Returns one of
--       OK avail     told; `avail` is what is left (-1 = no limit), below 0 where reservations are open for what is gone
--       KNOWN        it was in what the database told when this generation was built
--       NOGEN | CORRUPT what | BAD_ARG position
--
-- Atomic, because stock and members belong to one grant. Has no generation of its own: the version says whether it is
-- in what this generation was built from, so it is right across a rebuild. Not to be sent again after a lost answer;
-- what is lost is found by reconcile.

local h, u = KEYS[1], KEYS[2]
local MOST = 9007199254740991

local function whole(text, least)
  local n = text and string.find(text, '^%-?%d+$') and tonumber(text)
  if n and n >= least and n <= MOST then return n end
end

local version, units = whole(ARGV[1], 0), whole(ARGV[2], -MOST)
if not version then return {'BAD_ARG', 1} end
if not units then return {'BAD_ARG', 2} end
for position = 3, #ARGV, 2 do
  if ARGV[position] == '' then return {'BAD_ARG', position} end
  if not whole(ARGV[position + 1], -MOST) then return {'BAD_ARG', position + 1} end
end
local f = redis.call('HMGET', h, 'gen', 'state', 'avail', 'stocked', 'version', 'nu', 'life_ms')
if not f[1] or f[2] == 'building' then return {'NOGEN'} end
local avail, since, nu, life = whole(f[3], -MOST), whole(f[5], 0), whole(f[6], 0), whole(f[7], 1)
if not (avail and since and nu and life) then return {'CORRUPT', 'h'} end
if redis.call('HLEN', u) ~= nu then return {'CORRUPT', 'u'} end
if version <= since then return {'KNOWN'} end
local held = {}
for position = 3, #ARGV, 2 do
  local member = ARGV[position]
  if not held[member] then
    local text = redis.call('HGET', u, member)
    held[member] = text and whole(text, 1) or 0
    if text and held[member] == 0 then return {'CORRUPT', 'u'} end
  end
end

for position = 3, #ARGV, 2 do
  local member = ARGV[position]
  local before = held[member]
  local after = math.max(0, before + tonumber(ARGV[position + 1]))
  if after == 0 then
    redis.call('HDEL', u, member)
  elseif after ~= before then
    redis.call('HSET', u, member, after)
  end
  if before == 0 and after > 0 then nu = nu + 1 end
  if before > 0 and after == 0 then nu = nu - 1 end
  held[member] = after
end
if nu > 0 then redis.call('PEXPIRE', u, life) end
if f[4] == '1' then avail = avail + units end
redis.call('HSET', h, 'avail', avail, 'nu', nu)
return {'OK', f[4] == '1' and avail or -1}
