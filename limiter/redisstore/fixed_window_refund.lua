
local function fixed_window_refund(value, now, charge, _, at)
  if not value then return false end
  local index, count = counts_of(value)
  if floor(now / charge.window) > index or floor(at / charge.window) ~= index then return false end
  if count <= charge.cost then return nil end
  return counts_value(index, count - charge.cost, 0), (index + 1) * charge.window
end
