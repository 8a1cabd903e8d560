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
