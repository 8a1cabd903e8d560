-- SlidingWindowCounter allows a charge if current + previous * (window - elapsed) / window + cost <= limit, where elapsed
-- is the time since the current window began. Windows are aligned to the epoch. All terms except the weighted previous
-- count are integers, so the comparison uses its ceiling. The value is that of counts.lua.

-- counter_read returns index, current and previous at now, and whether the value is of that window; or nil and the problem of the value.
local function counter_read(value, now, window)
  local index = (now - now % window) / window
  if not value then return index, 0, 0, false end
  local stored_index, current, previous = decode_counts(value, now, window)
  if not stored_index then return nil, current end -- the problem
  if stored_index >= index then return stored_index, current, previous, true end -- later if the clock stepped back
  if stored_index == index - 1 then return index, 0, current, false end
  return index, 0, 0, false
end

-- counter_elapsed_until returns the elapsed time from which the weighted previous count is at most target. target is
-- less than previous.
local function counter_elapsed_until(previous, target, window)
  return window - (mul_div(target, window, previous))
end

-- counter_wait returns the negative wait until at most target units are used. More are used now.
local function counter_wait(now, start, window, current, previous, target)
  if current <= target then
    return now - start - counter_elapsed_until(previous, target - current, window)
  end
  return now - start - window - counter_elapsed_until(current, target, window) -- in the next window, current is the previous count
end

local function sliding_window_counter_step(value, now, charge)
  local window, units = charge.window, charge.units
  local index, current, previous, is_stored = counter_read(value, now, window)
  if not index then return nil, current end -- the problem
  local start = index * window
  local at, used, remaining, reset_after = now, current, 0, 0
  if start > now then at = start end
  if previous > 0 then
    local weighted, rest = mul_div(previous, window - (at - start), window)
    used = used + weighted
    if rest > 0 then used = used + 1 end
    reset_after = start + window - now
  end
  if current > 0 then reset_after = start + 2 * window - now end
  if used < units then remaining = units - used end
  local needed, counted, wait = charge.needed, current + charge.cost, 0
  if counted > MAX_UNITS then counted = MAX_UNITS end -- of a debt
  if used + needed > units then
    wait = NEVER
    if needed <= units then
      wait = counter_wait(now, start, window, charge.is_debt and counted or current, previous, units - needed)
      if wait < -2 * window then return nil, 'ahead' end
    end
    if not charge.is_debt then return wait, remaining, reset_after, at end
  end
  return wait, remaining, reset_after, at,
    encode_counts(index, counted, previous), start + 2 * window, is_stored and current > 0 -- without current units, it expired a window earlier
end
