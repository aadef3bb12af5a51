-- Reserve `qty` coupons of a campaign for a member, and note it where it is landed from.
--
-- KEYS  1 h   2 r   3 u   4 d   5 s                                     (see lua/__init__.py)
-- ARGV  1 gen           generation that the caller knows, >= 1
--       2 request       the caller's idempotency key, not empty
--       3 fingerprint   of the request's content, hexadecimal
--       4 member        not empty
--       5 qty           coupons, >= 1
--       6 now_ms        the server's clock
--       7 deadline_ms   until when the caller alone lands it
--       8 event         text that the landing needs, kept in the stream as it is
-- Returns one of
--       OK token avail              reserved; `token` names this reservation, `avail` is what is left (-1 = no limit)
--       DUP token deadline_ms qty   this request is reserved already and not yet landed
--       KEY_REUSE                   this request is reserved with other content
--       CLOSED now|window           paused or ended; outside of the window
--       LIMIT held limit            the member has, or is about to have, as many as allowed
--       SOLD_OUT avail              fewer than `qty` are left
--       RATE retry_ms               more claims a second than this campaign takes
--       NOGEN | STALE_GEN gen | CORRUPT what | BAD_ARG position
--
-- Atomic, because window, limit, stock and rate are read and taken in one step: between a GET and a SET of a client
-- another one takes the same unit (a test does it that way, and oversells). Everything is checked before the first
-- write; a server out of memory refuses at the first write, so nothing is ever half done.

local h, r, u, d, s = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local MOST = 9007199254740991

local function whole(text, least)
  local n = text and string.find(text, '^%-?%d+$') and tonumber(text)
  if n and n >= least and n <= MOST then return n end
end

local gen, qty = whole(ARGV[1], 1), whole(ARGV[5], 1)
local now, deadline = whole(ARGV[6], 0), whole(ARGV[7], 0)
local request, fingerprint, member, event = ARGV[2], ARGV[3], ARGV[4], ARGV[8]
if not gen then return {'BAD_ARG', 1} end
if not request or request == '' then return {'BAD_ARG', 2} end
if not fingerprint or not string.find(fingerprint, '^%x+$') then return {'BAD_ARG', 3} end
if not member or member == '' then return {'BAD_ARG', 4} end
if not qty then return {'BAD_ARG', 5} end
if not now then return {'BAD_ARG', 6} end
if not deadline then return {'BAD_ARG', 7} end
if not event then return {'BAD_ARG', 8} end

local f = redis.call('HMGET', h, 'gen', 'state', 'avail', 'stocked', 'limit', 'from_ms', 'until_ms', 'nr', 'nu', 'units',
  'rate', 'burst', 'tokens', 'refilled_ms', 'life_ms')
if not f[1] then return {'NOGEN'} end
if f[1] ~= ARGV[1] then return {'STALE_GEN', f[1]} end
if f[2] == 'building' then return {'NOGEN'} end
local n = {}
for i = 3, 15 do
  n[i] = whole(f[i], -MOST)
  if not n[i] then return {'CORRUPT', 'h'} end
end
local avail, stocked, limit, from, till, nr, nu, units = n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10]
if redis.call('HLEN', r) ~= nr then return {'CORRUPT', 'r'} end
if redis.call('ZCARD', d) ~= nr then return {'CORRUPT', 'd'} end
if redis.call('XLEN', s) ~= nr then return {'CORRUPT', 's'} end
if redis.call('HLEN', u) ~= nu then return {'CORRUPT', 'u'} end

local known = redis.call('HGET', r, request)
if known then
  local has, ends, token, print, who = string.match(known, '^(%d+)|(%d+)|([^|]+)|(%x+)|(.+)$')
  if not has then return {'CORRUPT', 'r'} end
  if print ~= fingerprint or who ~= member or tonumber(has) ~= qty then return {'KEY_REUSE'} end
  return {'DUP', token, ends, has}
end

if f[2] ~= 'open' then return {'CLOSED', 'now'} end
if now < from or (till > 0 and now >= till) then return {'CLOSED', 'window'} end

local text = redis.call('HGET', u, member)
local held = 0
if text then
  held = whole(text, 1)
  if not held then return {'CORRUPT', 'u'} end
end
if held + qty > limit then return {'LIMIT', held, limit} end
if stocked == 1 and avail < qty then return {'SOLD_OUT', avail} end

-- The bucket is counted in thousandths of a claim: `rate` claims a second are `rate` thousandths a millisecond.
local rate, tokens, refilled = n[11], n[13], n[14]
if rate > 0 then
  -- A time that no other server's clock can be at was told by one that was set back since: without this the bucket would
  -- stay as it is until the clock is there again. Written at once, since a refusal below writes nothing.
  if refilled - now > 10000 then
    refilled = now
    redis.call('HSET', h, 'refilled_ms', now)
  end
  tokens = math.min(n[12] * 1000, tokens + math.max(0, now - refilled) * rate)
  refilled = math.max(refilled, now)
  local cost = math.min(qty, n[12]) * 1000
  if tokens < cost then return {'RATE', math.ceil((cost - tokens) / rate)} end
  tokens = tokens - cost
end

-- From here on only writes.
local id = redis.call('XADD', s, '*', 'gen', ARGV[1], 'request', request, 'fingerprint', fingerprint, 'member', member,
  'qty', ARGV[5], 'at_ms', ARGV[6], 'deadline_ms', ARGV[7], 'event', event)
local token = ARGV[1] .. '/' .. id
redis.call('HSET', r, request, ARGV[5] .. '|' .. ARGV[7] .. '|' .. token .. '|' .. fingerprint .. '|' .. member)
redis.call('ZADD', d, ARGV[7], request)
if redis.call('HINCRBY', u, member, ARGV[5]) == qty then
  if nu == 0 then redis.call('PEXPIRE', u, f[15]) end
  nu = nu + 1
end
if nr == 0 then
  for _, key in ipairs({r, d, s}) do redis.call('PEXPIRE', key, f[15]) end
end
if stocked == 1 then avail = avail - qty end
redis.call('HSET', h, 'avail', avail, 'nr', nr + 1, 'nu', nu, 'units', units + qty, 'tokens', tokens,
  'refilled_ms', refilled)
return {'OK', token, stocked == 1 and avail or -1}
