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

-- The value of counted windows says index, that of the current window since the epoch, and the units of it and of the one
-- before. Where they are small enough it is one whole number, which Redis keeps in 16 bytes: the three in radix 256, 4096 or
-- 65536, and which it is. Else it is their bytes.
local function counts_value(index, current, previous)
  local radix, which, most = 256, 0, max(current, previous)
  if most >= 4096 then radix, which = 65536, 2 elseif most >= 256 then radix, which = 4096, 1 end
  local number = ((index * radix + current) * radix + previous) * 4 + which
  if most < radix and number < 9007199254740992 then return digits(number) end
  return pack(index) .. pack(current) .. pack(previous)
end

local function counts_of(value)
  if #value == 3 * WIDTH then
    local index, current = unpack_pair(value, 1)
    return index, current, unpack_number(value, 1 + 2 * WIDTH)
  end
  local number = tonumber(value)
  local which = number % 4
  local radix = which == 0 and 256 or which == 1 and 4096 or 65536
  number = (number - which) / 4
  local previous = number % radix
  number = (number - previous) / radix
  local current = number % radix
  return (number - current) / radix, current, previous
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

-- SlidingWindowCounter: admits iff current + previous * (window - elapsed) / window + cost <= limit, where elapsed is
-- the time since the current window began; windows are aligned to the epoch. Everything but the weighted previous
-- count is whole, so comparing against its ceiling is comparing the real numbers.
-- The value is that of counts.

-- counter_open returns index, current and previous now, and whether value says the same.
local function counter_open(value, now, window)
  local index = floor(now / window)
  if not value then return index, 0, 0, false end
  local stored, current, previous = counts_of(value)
  if stored >= index then return stored, current, previous, true end -- later if the clock has stepped back
  if stored == index - 1 then return index, 0, current, false end
  return index, 0, 0, false
end

-- counter_weighs_at_most is the least elapsed time at which previous units weigh no more than most, which is less.
local function counter_weighs_at_most(previous, most, window)
  return window - (mul_div(most, window, previous))
end

-- counter_wait is when no more than most units are used, given that more are now: so long ago, for it is to come.
local function counter_wait(now, start, window, current, previous, most)
  if current <= most then
    return now - start - counter_weighs_at_most(previous, most - current, window)
  end
  return now - start - window - counter_weighs_at_most(current, most, window)
end

local function sliding_window_counter_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local index, current, previous, kept = counter_open(value, now, window)
  local start = index * window
  local at, used, reset_after = max(now, start), current, 0
  if previous > 0 then
    local quotient, remainder = mul_div(previous, window - (at - start), window)
    used = used + quotient
    if remainder > 0 then used = used + 1 end
    reset_after = start + window - now
  end
  if current > 0 then reset_after = start + 2 * window - now end
  if used + cost <= units then
    return 0, max(0, units - used), reset_after, at,
      counts_value(index, current + cost, previous), start + 2 * window, kept and current > 0
  end
  local wait = NEVER
  if cost <= units then wait = counter_wait(now, start, window, current, previous, units - cost) end
  return wait, max(0, units - used), reset_after, at
end

local step, READS_WHOLE, QUEUES = sliding_window_counter_step, true, false

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
