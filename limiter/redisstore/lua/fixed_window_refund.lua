
local function fixed_window_refund(value, now, charge, _, spent_at)
  if not value then return false end
  local index, count = decode_counts(value, now, charge.window)
  if not index then return false, not count end
  if floor(now / charge.window) > index or floor(spent_at / charge.window) ~= index then return false end
  if count <= charge.cost then return nil end
  return encode_counts(index, count - charge.cost, 0), (index + 1) * charge.window
end
