
local function fixed_window_refund(value, now, charge, _, spent_at)
  local window = charge.window
  local index, count = decode_counts(value, now, window)
  if not index then return count end -- the problem
  if floor(now / window) > index or floor(spent_at / window) ~= index then return 'keep' end
  if count <= charge.cost then return 'delete' end
  return 'set', encode_counts(index, count - charge.cost, 0), (index + 1) * window, true
end
