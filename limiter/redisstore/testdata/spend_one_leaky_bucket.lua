-- Numbers are doubles here: integers are exact below 2^53, and what follows keeps every one below.
local call, KEYS, ARGV = redis.call, KEYS, ARGV -- globals are slow
local byte, char, floor, ceil, max, min, fmod = string.byte, string.char, math.floor, math.ceil, math.max, math.min, math.fmod

-- NEVER is the wait of a cost above the limit.
local NEVER = -9007199254740991

-- What a run packs and formats for several keys is mostly the same: the same now, the same window, small counts. It is
-- kept, under the negative number: some Lua makes room for an array up to a positive one.
local several = KEYS[2] ~= nil
local packed, written_out = several and {}, several and {}

-- digits is how a number leaves for Redis; tostring would round above 10^14.
local function digits(number)
  local text = several and written_out[-number]
  if text then return text end
  text = string.format('%.0f', number)
  if several then written_out[-number] = text end
  return text
end

-- milliseconds rounds microseconds up: a key may outlive its use by less than a millisecond, and never the reverse.
local function milliseconds(microseconds)
  return digits(ceil(microseconds / 1000))
end

-- A stored number is 7 bytes, big-endian.
local WIDTH = 7

local function pack(number)
  local bytes = several and packed[-number]
  if bytes then return bytes end
  if number < 256 then return '\0\0\0\0\0\0' .. char(number) end
  local low = number % 16777216
  local high = (number - low) / 16777216
  bytes = char(
    floor(high / 16777216), floor(high / 65536) % 256, floor(high / 256) % 256, high % 256,
    floor(low / 65536), floor(low / 256) % 256, low % 256)
  if several then packed[-number] = bytes end
  return bytes
end

-- unpack_number reads the number at bytes[from].
local function unpack_number(bytes, from)
  local a, b, c, d, e, f, g = byte(bytes, from, from + 6)
  return (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g
end

-- unpack_pair reads the number at bytes[from] and the one behind it.
local function unpack_pair(bytes, from)
  local a, b, c, d, e, f, g, h, i, j, k, l, m, n = byte(bytes, from, from + 13)
  return (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g,
    (((((h * 256 + i) * 256 + j) * 256 + k) * 256 + l) * 256 + m) * 256 + n
end

-- mul_div returns the whole quotient and the remainder of a * b / c, exact for a < 2^30 and b, c <= 2^42. What is too
-- large for one step it multiplies ten bits of a at a time: remainder * 2^10 + ten bits * b stays below 2^53.
local function mul_div(a, b, c)
  local product = a * b
  local remainder = fmod(product, c)
  if product < 9007199254740992 then return (product - remainder) / c, remainder end
  product = floor(a / 1048576) * b
  remainder = fmod(product, c)
  local quotient = (product - remainder) / c
  product = remainder * 1024 + floor(a / 1024) % 1024 * b
  remainder = fmod(product, c)
  quotient = quotient * 1024 + (product - remainder) / c
  product = remainder * 1024 + a % 1024 * b
  remainder = fmod(product, c)
  return quotient * 1024 + (product - remainder) / c, remainder
end

-- TokenBucket and LeakyBucket share a meter: its level rises by the cost of what is admitted and sinks steadily by limit
-- units per window. A request is admitted iff the level plus its cost stay within the capacity. To a TokenBucket the
-- level is the tokens that are missing, and the capacity is its burst; to a LeakyBucket it is the units that are still to
-- leave, a queue of burst and the one on its way out, and the time the level takes to sink is the wait of the next: who
-- cannot wait is admitted at level 0 alone.
-- The value is four numbers: at, whole, part and ends; the level was whole + part / window units at that instant (us),
-- and sinks to nothing when it ends (us): a limit that is lowered later does not put that off.

-- bucket_sink returns at and the level (whole, part) that was so at that instant, brought to now; never above the capacity,
-- then as now: a burst that was lowered blocks no longer than it implies, and the wait it answers falls with time.
local function bucket_sink(at, whole, part, now, charge)
  local elapsed, units, window = max(0, now - at), charge.units, charge.window -- the clock may have stepped back
  if whole >= charge.capacity then whole, part = charge.capacity, 0 end
  local rest = fmod(elapsed, window)
  local sunk, sunk_part = mul_div(units, rest, window)
  whole, part = whole - (elapsed - rest) / window * units - sunk, part - sunk_part
  if part < 0 then whole, part = whole - 1, part + window end
  if whole < 0 then whole, part = 0, 0 end
  return at + elapsed, whole, part
end

-- bucket_open returns at, whole, part and ends, brought to now.
local function bucket_open(value, now, charge)
  if not value then return now, 0, 0, 0 end
  local ends = unpack_number(value, 22)
  if now >= ends then return now, 0, 0, ends end
  local at, whole = unpack_pair(value, 1)
  local part = unpack_number(value, 15)
  at, whole, part = bucket_sink(at, whole, part, now, charge)
  return at, whole, part, ends
end

-- bucket_drain is how long a level takes to sink by whole + part / window units, at the limit's rate.
local function bucket_drain(whole, part, charge)
  local quotient, remainder = mul_div(whole, charge.window, charge.units)
  return quotient + ceil((remainder + part) / charge.units)
end

local function bucket_step(value, now, charge)
  local cost, capacity = charge.cost, charge.capacity
  local room = capacity - cost -- the highest level that admits it
  if charge.at_once and cost > 0 then room = min(room, 0) end
  local at, whole, part, ends = bucket_open(value, now, charge)
  local used, reset_after, wait = whole, 0, 0
  if part > 0 then used = whole + 1 end
  if used > 0 then reset_after = min(at + bucket_drain(whole, part, charge), ends) - now end
  if used <= room then
    if charge.queues and cost > 0 then wait = reset_after end
    local free = at + bucket_drain(whole + cost, part, charge)
    return wait, capacity - used, reset_after, at, pack(at) .. pack(whole + cost) .. pack(part) .. pack(free), free
  end
  wait = NEVER
  if room >= 0 then wait = now - min(at + bucket_drain(whole - room, part, charge), ends) end
  return wait, capacity - used, reset_after, at
end

local step, READS_WHOLE, QUEUES = bucket_step, true, true

-- spend_one decides one charge under one algorithm: spend for who comes alone.
--   KEYS[1]   the counter
--   ARGV      'spend', or 'peek' to change nothing; limit (units), window (us), capacity (units; of a
--             bucket; negative of a LeakyBucket that admits at once or not at all), cost (units);
--             and, unless this server's clock is to be read, now in microseconds since the epoch
-- Reply: that of spend.
-- Must never happen: a write when it is denied, or on peek; a key without a time to live.
local key, now = KEYS[1], ARGV[6]
if now then
  now = tonumber(now)
else
  now = call('TIME')
  now = now[1] * 1000000 + now[2]
end
local capacity = tonumber(ARGV[4])
local charge = {
  units = tonumber(ARGV[2]), window = tonumber(ARGV[3]), capacity = max(capacity, -capacity), at_once = capacity < 0,
  cost = tonumber(ARGV[5]), queues = QUEUES,
}

local value
if READS_WHOLE then value = call('MGET', key)[1] end
local wait, remaining, reset_after, at, next_value, free, kept = step(value, now, charge, key)
if next_value and charge.cost > 0 and ARGV[1] == 'spend' then
  if type(next_value) == 'function' then
    next_value()
  elseif kept then
    call('SET', key, next_value, 'KEEPTTL')
  else
    call('SET', key, next_value, 'PXAT', milliseconds(free))
  end
  remaining, reset_after = remaining - charge.cost, free - now
end
return {now, at - now, remaining, reset_after, wait}
