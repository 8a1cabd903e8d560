-- All numbers are doubles: integers are exact below 2^53, and all numbers here stay below. The remainder of such integers is exact, too.
-- What runs for each charge compares numbers itself: a call of a function takes as long as ten operations.
local call, KEYS, ARGV = redis.call, KEYS, ARGV -- locals are faster than globals
local byte, char, floor, max, min = string.byte, string.char, math.floor, math.max, math.min

-- NEVER is the wait of a cost above the limit.
local NEVER = -9007199254740991

-- format_integer formats a number for a Redis command; tostring would round above 10^14. '%.0f' takes twice as long, and '%d' can be
-- limited to 32 bits.
local function format_integer(number)
  if number < 1000000000 then return string.format('%d', number) end
  local low = number % 1000000000
  return string.format('%d%09d', (number - low) / 1000000000, low)
end

-- to_milliseconds rounds up: a key can live up to one millisecond too long, never too short.
local function to_milliseconds(microseconds)
  local rest = microseconds % 1000
  if rest > 0 then microseconds = microseconds + 1000 - rest end
  return format_integer(microseconds / 1000)
end

-- Values that no script wrote can have any bytes. Larger numbers than these prove that a value is corrupt. A time can be
-- later than now because the clock stepped back. If it is more than one window later, the clock was wrong when it was
-- written, and the counter starts over.
local MAX_UNITS, MAX_LOG_UNITS = 1000000000, 1000000 -- units, units of a log

-- A stored number has 7 bytes, big-endian. pack and unpack_numbers are those of the struct library of Redis.
local WIDTH = 7
local ONE_NUMBER, TWO_NUMBERS, THREE_NUMBERS, FOUR_NUMBERS = '>I7', '>I7I7', '>I7I7I7', '>I7I7I7I7'
local struct = rawget(_G, 'struct') or {}
local pack, unpack_numbers = struct.pack, struct.unpack

if not pack then -- a server that behaves like Redis, without the library
  pack = function(_, ...)
    local bytes = ''
    for _, number in ipairs({...}) do
      local seven = ''
      for _ = 1, WIDTH do
        seven = char(number % 256) .. seven
        number = floor(number / 256)
      end
      bytes = bytes .. seven
    end
    return bytes
  end

  unpack_numbers = function(format, bytes, from)
    local numbers = {}
    for i = 1, (#format - 1) / 2 do
      local number, first = 0, (from or 1) + WIDTH * (i - 1)
      for at = first, first + WIDTH - 1 do number = number * 256 + byte(bytes, at) end
      numbers[i] = number
    end
    return unpack(numbers)
  end
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
