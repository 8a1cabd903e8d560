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
