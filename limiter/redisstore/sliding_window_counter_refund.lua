
local function sliding_window_counter_refund(value, now, charge, _, at)
  local window = charge.window
  local index, current, previous = counter_open(value, now, window)
  local ago = index - floor(at / window)
  if ago == 0 and current > 0 then
    current = max(0, current - charge.cost)
  elseif ago == 1 and previous > 0 then
    previous = max(0, previous - charge.cost)
  else
    return false
  end
  if current == 0 and previous == 0 then return nil end
  local free = (index + 1) * window
  if current > 0 then free = free + window end
  return counts_value(index, current, previous), free
end
