-- FixedWindow allows a charge if the units of the current window plus the cost stay within the limit. Windows are aligned
-- to the epoch. The value is that of counts.lua; previous is always 0.

local function fixed_window_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local index, count, keep_ttl = floor(now / window), 0, false
  if value then
    local stored_index, stored_count = decode_counts(value, now, window)
    if not stored_index then return nil end
    -- the stored window is later if the clock stepped back
    if stored_index >= index then index, count, keep_ttl = stored_index, stored_count, true end
  end
  local start, finish, reset_after = index * window, (index + 1) * window, 0
  if count > 0 then reset_after = finish - now end
  local needed, wait = charge.needed, 0
  if count + needed > units then
    wait = now - finish
    if needed > units then wait = NEVER end
    if not charge.debt then return wait, max(0, units - count), reset_after, max(now, start) end
  end
  return wait, max(0, units - count), reset_after, max(now, start),
    encode_counts(index, min(count + cost, MAX_UNITS), 0), finish, keep_ttl
end
