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
