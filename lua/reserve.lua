-- Reserve coupons of a campaign for members, each request for itself, and note each where it is landed from.
--
-- KEYS  1 h   2 r   3 u   4 d   5 s                                     (see lua/__init__.py)
-- ARGV  1 gen           generation that the callers know, >= 1
--       2.. request, fingerprint, member, qty, now_ms, deadline_ms, event
--                       for each reservation, a hundred or so at most:
--           request       the caller's idempotency key, not empty
--           fingerprint   of the request's content, hexadecimal
--           member        not empty
--           qty           coupons, >= 1
--           now_ms        the server's clock
--           deadline_ms   until when the caller alone lands it
--           event         text that the landing needs, kept in the stream as it is
-- Returns one of
--       OK how...                       for each reservation, in order, as if it had come alone, one of
--           OK token avail              reserved; `token` names this reservation, `avail` is what is left (-1 = no limit)
--           DUP token deadline_ms qty   this request is reserved already and not yet landed
--           KEY_REUSE                   this request is reserved with other content
--           CLOSED now|window           paused or ended; outside of the window
--           LIMIT held limit            the member has, or is about to have, as many as allowed
--           SOLD_OUT avail              fewer than `qty` are left
--           RATE retry_ms               more claims a second than this campaign takes
--       NOGEN | STALE_GEN gen | CORRUPT what | BAD_ARG position
--
-- Atomic, because window, limit, stock and rate are read and taken in one step: between a GET and a SET of a client
-- another one takes the same unit (a test does it that way, and oversells). Everything is checked before the first
-- write; a server out of memory refuses at the first write, so nothing is ever half done.

local h, r, u, d, s = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local MOST, FIELDS = 9007199254740991, 7

local function whole(text, least)
  local n = text and string.find(text, '^%-?%d+$') and tonumber(text)
  if n and n >= least and n <= MOST then return n end
end

if not whole(ARGV[1], 1) then return {'BAD_ARG', 1} end
for i = 2, math.max(2, #ARGV), FIELDS do
  local request, fingerprint, member = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if not request or request == '' then return {'BAD_ARG', i} end
  if not fingerprint or not string.find(fingerprint, '^%x+$') then return {'BAD_ARG', i + 1} end
  if not member or member == '' then return {'BAD_ARG', i + 2} end
  if not whole(ARGV[i + 3], 1) then return {'BAD_ARG', i + 3} end
  if not whole(ARGV[i + 4], 0) then return {'BAD_ARG', i + 4} end
  if not whole(ARGV[i + 5], 0) then return {'BAD_ARG', i + 5} end
  if not ARGV[i + 6] then return {'BAD_ARG', i + 6} end
end

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
local rate, burst, tokens, refilled = n[11], n[12], n[13], n[14]
if redis.call('HLEN', r) ~= nr then return {'CORRUPT', 'r'} end
if redis.call('ZCARD', d) ~= nr then return {'CORRUPT', 'd'} end
if redis.call('XLEN', s) ~= nr then return {'CORRUPT', 's'} end
if redis.call('HLEN', u) ~= nu then return {'CORRUPT', 'u'} end

local open, held, taken, was_set_back = {}, {}, {}, false

-- Weigh the reservation whose arguments begin at `i`, behind all before it; a second value is what is corrupt.
local function weigh(i)
  local request, fingerprint, member = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local qty, now = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])

  local known = open[request]
  if not known then
    local text = redis.call('HGET', r, request)
    if text then
      local has, ends, token, print, who = string.match(text, '^(%d+)|(%d+)|([^|]+)|(%x+)|(.+)$')
      if not has then return nil, 'r' end
      known = {fingerprint = print, member = who, qty = tonumber(has), dup = {'DUP', token, ends, has}}
    end
  end
  if known then
    if known.fingerprint ~= fingerprint or known.member ~= member or known.qty ~= qty then return {'KEY_REUSE'} end
    return known.dup
  end

  if f[2] ~= 'open' then return {'CLOSED', 'now'} end
  if now < from or (till > 0 and now >= till) then return {'CLOSED', 'window'} end
  if not held[member] then
    local text = redis.call('HGET', u, member)
    held[member] = text and whole(text, 1) or 0
    if text and held[member] == 0 then return nil, 'u' end
  end
  if held[member] + qty > limit then return {'LIMIT', held[member], limit} end
  if stocked == 1 and avail < qty then return {'SOLD_OUT', avail} end

  -- The bucket is counted in thousandths of a claim: `rate` claims a second are `rate` thousandths a millisecond.
  if rate > 0 then
    -- A time that no other server's clock can be at was told by one that was set back since: without this the bucket
    -- would stay as it is until the clock is there again. Written also where all are refused.
    if refilled - now > 10000 then refilled, was_set_back = now, true end
    local full = math.min(burst * 1000, tokens + math.max(0, now - refilled) * rate)
    local cost = math.min(qty, burst) * 1000
    if full < cost then return {'RATE', math.ceil((cost - full) / rate)} end
    tokens, refilled = full - cost, math.max(refilled, now)
  end

  if stocked == 1 then avail = avail - qty end
  if held[member] == 0 then nu = nu + 1 end
  held[member] = held[member] + qty
  units = units + qty
  local reply = {'OK', '', stocked == 1 and avail or -1}
  local dup = {'DUP', '', ARGV[i + 5], ARGV[i + 3]}
  open[request] = {fingerprint = fingerprint, member = member, qty = qty, dup = dup}
  taken[#taken + 1] = {at = i, reply = reply, dup = dup}
  return reply
end

local answer = {'OK'}
for i = 2, #ARGV, FIELDS do
  local reply, corrupt = weigh(i)
  if corrupt then return {'CORRUPT', corrupt} end
  answer[#answer + 1] = reply
end

-- From here on only writes.
if #taken == 0 then
  if was_set_back then redis.call('HSET', h, 'refilled_ms', refilled) end
  return answer
end
local records, deadlines, members = {}, {}, {}
for _, each in ipairs(taken) do
  local i = each.at
  local request, fingerprint, member, qty, deadline = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 5]
  local id = redis.call('XADD', s, '*', 'gen', ARGV[1], 'request', request, 'fingerprint', fingerprint, 'member', member,
    'qty', qty, 'at_ms', ARGV[i + 4], 'deadline_ms', deadline, 'event', ARGV[i + 6])
  local token = ARGV[1] .. '/' .. id
  each.reply[2], each.dup[2] = token, token
  records[#records + 1] = request
  records[#records + 1] = qty .. '|' .. deadline .. '|' .. token .. '|' .. fingerprint .. '|' .. member
  deadlines[#deadlines + 1] = deadline
  deadlines[#deadlines + 1] = request
  members[#members + 1] = member
  members[#members + 1] = held[member]
end
redis.call('HSET', r, unpack(records))
redis.call('ZADD', d, unpack(deadlines))
redis.call('HSET', u, unpack(members))
if n[9] == 0 then redis.call('PEXPIRE', u, f[15]) end
if nr == 0 then
  for _, key in ipairs({r, d, s}) do redis.call('PEXPIRE', key, f[15]) end
end
redis.call('HSET', h, 'avail', avail, 'nr', nr + #taken, 'nu', nu, 'units', units, 'tokens', tokens,
  'refilled_ms', refilled)
return answer
