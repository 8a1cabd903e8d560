-- All numbers are doubles: integers are exact below 2^53, and all numbers here stay below.
local call, KEYS, ARGV = redis.call, KEYS, ARGV -- locals are faster than globals
local byte, char, floor, ceil, max, min, fmod = string.byte, string.char, math.floor, math.ceil, math.max, math.min, math.fmod

-- NEVER is the wait of a cost above the limit.
local NEVER = -9007199254740991

-- With several keys, a run packs and formats mostly the same numbers: the same now, the same window, small counts. They
-- are cached under the negative number, because some Lua versions allocate an array up to a positive index.
local several_keys = KEYS[2] ~= nil
local pack_cache, format_cache = several_keys and {}, several_keys and {}

-- format_integer formats a number for a Redis command; tostring would round above 10^14.
local function format_integer(number)
  local text = several_keys and format_cache[-number]
  if text then return text end
  text = string.format('%.0f', number)
  if several_keys then format_cache[-number] = text end
  return text
end

-- to_milliseconds rounds up: a key can live up to one millisecond too long, never too short.
local function to_milliseconds(microseconds)
  return format_integer(ceil(microseconds / 1000))
end

-- Values that no script wrote can have any bytes. Larger numbers than these prove that a value is corrupt. A time can be
-- later than now because the clock stepped back.
local MAX_AHEAD, MAX_UNITS, MAX_LOG_UNITS = 31536000000000, 1000000000, 1000000 -- us (a year), units, units of a log

-- A stored number has 7 bytes, big-endian.
local WIDTH = 7

local function pack(number)
  local bytes = several_keys and pack_cache[-number]
  if bytes then return bytes end
  if number < 256 then return '\0\0\0\0\0\0' .. char(number) end
  local low = number % 16777216
  local high = (number - low) / 16777216
  bytes = char(
    floor(high / 16777216), floor(high / 65536) % 256, floor(high / 256) % 256, high % 256,
    floor(low / 65536), floor(low / 256) % 256, low % 256)
  if several_keys then pack_cache[-number] = bytes end
  return bytes
end

-- unpack_number returns the number at bytes[from].
local function unpack_number(bytes, from)
  local a, b, c, d, e, f, g = byte(bytes, from, from + 6)
  return (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g
end

-- unpack_pair returns the number at bytes[from] and the next one.
local function unpack_pair(bytes, from)
  local a, b, c, d, e, f, g, h, i, j, k, l, m, n = byte(bytes, from, from + 13)
  return (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g,
    (((((h * 256 + i) * 256 + j) * 256 + k) * 256 + l) * 256 + m) * 256 + n
end

-- read_capacity returns the capacity of a bucket (units), and the longest delay (us) of a LeakyBucket if it is bounded. Then
-- the argument is negative: the capacity plus 2^31 times the delay in milliseconds.
local function read_capacity(argument)
  if argument >= 0 then return argument end
  local capacity = -argument % 2147483648
  return capacity, (-argument - capacity) / 2147483648 * 1000
end

-- read_cost returns the cost of a charge (units), the units that must remain so that it is allowed, and whether it is a debt:
-- then one unit must remain, and the charge is counted even if it is denied. The argument of a debt is negative. If all units
-- of the debt must remain, 2^31 is added to its cost.
local function read_cost(argument)
  if argument >= 0 then return argument, argument, false end
  if argument >= -2147483648 then return -argument, 1, true end
  return -argument - 2147483648, -argument - 2147483648, true
end

-- The value of a counted window has three numbers: the index of the current window since the epoch, the units of that
-- window, and the units of the previous one. Small numbers are stored as one integer, which Redis keeps in 16 bytes: the
-- three numbers in radix 256, 4096 or 65536, and in the lowest two bits which radix it is. Larger ones are packed.
local function encode_counts(index, current, previous)
  local radix, radix_id, largest = 256, 0, max(current, previous)
  if largest >= 4096 then radix, radix_id = 65536, 2 elseif largest >= 256 then radix, radix_id = 4096, 1 end
  local number = ((index * radix + current) * radix + previous) * 4 + radix_id
  if largest < radix and number < 9007199254740992 then return format_integer(number) end
  return pack(index) .. pack(current) .. pack(previous)
end

-- decode_counts returns index, current and previous; nil if the value is corrupt.
local function decode_counts(value, now, window)
  local index, current, previous
  if #value == 3 * WIDTH then
    index, current = unpack_pair(value, 1)
    previous = unpack_number(value, 1 + 2 * WIDTH)
    if current > MAX_UNITS or previous > MAX_UNITS then return nil end
  else
    local number = tonumber(value)
    if not number or number < 0 or number >= 9007199254740992 then return nil end
    local radix_id = number % 4
    local radix = radix_id == 0 and 256 or radix_id == 1 and 4096 or radix_id == 2 and 65536
    if not radix then return nil end
    number = (number - radix_id) / 4
    previous = number % radix
    number = (number - previous) / radix
    current = number % radix
    index = (number - current) / radix
  end
  if index * window > now + MAX_AHEAD then return nil end
  return index, current, previous
end

-- FixedWindow allows a charge if the units of the current window plus the cost stay within the limit. Windows are aligned
-- to the epoch. The value is that of counts.lua; previous is always 0.

local function fixed_window_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local index, count, keep_ttl = floor(now / window), 0, false
  if value then
    local stored_index, stored_count = decode_counts(value, now, window)
    if not stored_index then return nil end
    -- the stored window is later if the clock stepped back
    if stored_index >= index then index, count, keep_ttl = stored_index, stored_count, true end
  end
  local start, finish, reset_after = index * window, (index + 1) * window, 0
  if count > 0 then reset_after = finish - now end
  local needed, wait = charge.needed, 0
  if count + needed > units then
    wait = now - finish
    if needed > units then wait = NEVER end
    if not charge.debt then return wait, max(0, units - count), reset_after, max(now, start) end
  end
  return wait, max(0, units - count), reset_after, max(now, start),
    encode_counts(index, min(count + cost, MAX_UNITS), 0), finish, keep_ttl
end

local step = fixed_window_step
local READS_WHOLE, QUEUES, IS_COMPACT = true, false, false

-- spend_one decides a request with one charge. It contains only the algorithm of that charge.
--   KEYS[1]   the counter; of a compact counter the key of its block
--   KEYS[2]   the second key of a compact SlidingWindowCounter
--   ARGV[1]   'spend', or 'peek' to change nothing
--   ARGV[2]   limit (units)
--   ARGV[3]   window (us)
--   ARGV[4]   capacity (only for buckets, see read_capacity)
--   ARGV[5]   cost (units, see read_cost)
--   ARGV[6]   the field of a compact counter
--   ARGV[6], of a compact counter ARGV[7]
--             now in microseconds since the epoch; absent to read the clock of this server
-- Reply: that of spend.
-- Must never happen: a write for a denied charge that is no debt, or on peek; a key without a time to live.
local key, now = KEYS[1], ARGV[IS_COMPACT and 7 or 6]
if now then
  now = tonumber(now)
else
  now = call('TIME')
  now = now[1] * 1000000 + now[2]
end
local capacity, max_delay = read_capacity(tonumber(ARGV[4]))
local cost, needed, debt = read_cost(tonumber(ARGV[5]))
local charge = {
  units = tonumber(ARGV[2]), window = tonumber(ARGV[3]), capacity = capacity, max_delay = max_delay,
  cost = cost, needed = needed, debt = debt, queues = QUEUES,
}

local value
if READS_WHOLE then value = call('MGET', key)[1] end
local wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = step(value, now, charge, key, ARGV[6], KEYS[2])
local corrupt
if not wait then
  corrupt = 0
  wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = step(false, now, charge, key, ARGV[6], KEYS[2])
end
if next_value and cost > 0 and ARGV[1] == 'spend' then
  if type(next_value) == 'function' then
    next_value()
  elseif IS_COMPACT then
    call('HSET', keep_ttl, ARGV[6], next_value)
  elseif keep_ttl then
    call('SET', key, next_value, 'KEEPTTL')
  else
    call('SET', key, next_value, 'PXAT', to_milliseconds(expires_at))
  end
  remaining, reset_after = max(0, remaining - cost), expires_at - now
end
return {now, at - now, remaining, reset_after, wait, corrupt}
