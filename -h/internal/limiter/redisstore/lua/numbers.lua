-- All numbers are doubles: integers are exact below 2^53, and all numbers here stay below. The remainder of such integers is exact, too.
-- What runs for each charge compares numbers itself: a call of a function takes as long as ten operations.
local call, KEYS, ARGV = redis.call, KEYS, ARGV -- locals are faster than globals
local byte, char, floor, max, min = string.byte, string.char, math.floor, math.max, math.min

-- A run of a script executes all of it, and a function takes as long to define as a small command for each local outside that it uses. So only
-- these numbers have a name in several functions: the wait of a cost above the limit, and the units of the largest counter. A stored number that is
-- larger proves that no script wrote the value.
local NEVER, MAX_UNITS = -9007199254740991, 1000000000

-- WRONG_TYPE is read in place of the value of a key that is not a string. No script writes it, so the counter starts over: the next write replaces the
-- key.
local WRONG_TYPE = '!'

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

-- pack and unpack_numbers are those of the struct library of Redis. A stored number has 7 bytes, big-endian: '>I7I7' is the format of two. In an
-- entry of a log, it has 4.
local struct = rawget(_G, 'struct') or {}
local pack, unpack_numbers = struct.pack, struct.unpack

if not pack then -- a server that behaves like Redis, without the library
  pack = function(format, ...)
    local bytes = ''
    for i, number in ipairs({...}) do
      local packed = ''
      for _ = 1, tonumber(string.sub(format, 2 * i + 1, 2 * i + 1)) do
        packed = char(number % 256) .. packed
        number = floor(number / 256)
      end
      bytes = bytes .. packed
    end
    return bytes
  end

  unpack_numbers = function(format, bytes, from)
    local numbers, at = {}, from or 1
    for i = 1, (#format - 1) / 2 do
      local number = 0
      for _ = 1, tonumber(string.sub(format, 2 * i + 1, 2 * i + 1)) do
        number, at = number * 256 + byte(bytes, at), at + 1
      end
      numbers[i] = number
    end
    return unpack(numbers)
  end
end
