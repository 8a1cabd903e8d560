
local function fixed_window_refund(value, now, charge, _, at)
  if not value then return false end
  local index, count = unpack_pair(value, 1)
  if floor(now / charge.window) > index or floor(at / charge.window) ~= index then return false end
  if count <= charge.cost then return nil end
  return pack(index) .. pack(count - charge.cost), (index + 1) * charge.window
end
