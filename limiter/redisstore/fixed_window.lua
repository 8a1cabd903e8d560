-- FixedWindow: admits iff the units admitted in the current window plus the cost stay within the limit; windows are
-- aligned to the epoch.
-- The value is that of counts, of a window without one before.

local function fixed_window_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local index, count, kept = floor(now / window), 0, false
  if value then
    local stored, counted = counts_of(value)
    if stored >= index then index, count, kept = stored, counted, true end -- later if the clock has stepped back
  end
  local start, finish, reset_after = index * window, (index + 1) * window, 0
  if count > 0 then reset_after = finish - now end
  if count + cost <= units then
    return 0, max(0, units - count), reset_after, max(now, start), counts_value(index, count + cost, 0), finish, kept
  end
  local wait = now - finish
  if cost > units then wait = NEVER end
  return wait, max(0, units - count), reset_after, max(now, start)
end
