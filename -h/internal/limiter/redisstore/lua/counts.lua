-- The value of a counted window has three numbers: the index of the current window since the epoch, the units of that
-- window, and the units of the previous one. Small numbers are stored as one integer, which Redis keeps in 16 bytes: the
-- three numbers in radix 256, 4096 or 65536, and in the lowest two bits which radix it is. Larger ones are packed.

-- With several keys, most counters have the same window and small counts. Their texts are cached under the negative number, because
-- some Lua versions allocate an array up to a positive index.
local count_cache = KEYS[2] and {}

local function encode_counts(index, current, previous)
  local radix, radix_id, largest = 256, 0, current
  if previous > current then largest = previous end
  if largest >= 4096 then radix, radix_id = 65536, 2 elseif largest >= 256 then radix, radix_id = 4096, 1 end
  local number = ((index * radix + current) * radix + previous) * 4 + radix_id
  if largest < radix and number < 9007199254740992 then
    local text = count_cache and count_cache[-number]
    if text then return text end
    text = format_integer(number)
    if count_cache then count_cache[-number] = text end
    return text
  end
  return pack('>I7I7I7', index, current, previous)
end

-- decode_counts returns index, current and previous; or nil and the problem of the value, see charge.lua. Values that no script wrote can have
-- any bytes. A value can be ahead because the clock stepped back. If it is more than one window ahead, the clock was wrong when it was written.
local function decode_counts(value, now, window)
  local index, current, previous
  if #value == 21 then
    index, current, previous = unpack_numbers('>I7I7I7', value)
    if current > MAX_UNITS or previous > MAX_UNITS then return nil, 'corrupt' end
  else
    local number = tonumber(value)
    if not number or number < 0 or number >= 9007199254740992 then return nil, 'corrupt' end
    local radix_id, radix = number % 4, 256
    if radix_id == 1 then radix = 4096 elseif radix_id == 2 then radix = 65536 elseif radix_id ~= 0 then return nil, 'corrupt' end
    number = (number - radix_id) / 4
    previous = number % radix
    number = (number - previous) / radix
    current = number % radix
    index = (number - current) / radix
  end
  if index * window > now + window then return nil, 'ahead' end
  return index, current, previous
end
