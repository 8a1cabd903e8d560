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
