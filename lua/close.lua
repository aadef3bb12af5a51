-- Retire what is there for a newer generation, which is being built or lives elsewhere.
--
-- KEYS  1 h                                                             (see lua/__init__.py)
-- ARGV  1 gen       the newer generation, >= 1
--       2 life_ms   how long the mark outlives its last use
-- Returns one of
--       OK
--       STALE_GEN gen               this one or a newer one is there already
--       BAD_ARG position
--
-- Comes before the database is read for a rebuild: from here on every script refuses, so whatever is decided later is
-- told to the new generation, and whatever was decided before is in what is read. Atomic, because of two rebuilds the
-- one with the older generation must lose, whichever comes first.

local h = KEYS[1]
-- A generation is a count of rebuilds: beyond this no process announced it, and nothing could be announced above.
local BELIEVED = 1000000000000

local function whole(text, least)
  local n = text and string.find(text, '^%-?%d+$') and tonumber(text)
  if n and n >= least and n <= 9007199254740991 then return n end
end

local gen, life = whole(ARGV[1], 1), whole(ARGV[2], 1)
if not gen then return {'BAD_ARG', 1} end
if not life then return {'BAD_ARG', 2} end
local there = redis.call('TYPE', h).ok
if there == 'hash' then
  local known = whole(redis.call('HGET', h, 'gen') or '', 1)
  if known and known >= gen and known <= BELIEVED then return {'STALE_GEN', tostring(redis.call('HGET', h, 'gen'))} end
elseif there ~= 'none' then
  redis.call('UNLINK', h)
end
redis.call('HSET', h, 'gen', ARGV[1], 'state', 'building')
redis.call('PEXPIRE', h, ARGV[2])
return {'OK'}
