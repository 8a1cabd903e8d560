
local function sliding_window_counter_refund(value, now, charge, _, spent_at)
  local window = charge.window
  local index, current, previous, is_stored = counter_read(value, now, window)
  if not index then return current end -- the problem
  local windows_ago = index - floor(spent_at / window)
  if windows_ago == 0 and current > 0 then
    current = max(0, current - charge.cost)
  elseif windows_ago == 1 and previous > 0 then
    previous = max(0, previous - charge.cost)
  else
    return 'keep'
  end
  if current == 0 and previous == 0 then return 'delete' end
  local expires_at = (index + 1) * window
  if current > 0 then expires_at = expires_at + window end
  return 'set', encode_counts(index, current, previous), expires_at, is_stored
end
