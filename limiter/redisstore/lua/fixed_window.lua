-- FixedWindow allows a charge if the units of the current window plus the cost stay within the limit. Windows are aligned
-- to the epoch. The value is that of counts.lua; previous is always 0.

local function fixed_window_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local start = now - now % window
  local index, count, at, keep_ttl = start / window, 0, now, false
  if value then
    local stored_index, stored_count = decode_counts(value, now, window)
    if not stored_index then return nil, stored_count end
    if stored_index >= index then
      count, keep_ttl = stored_count, true
      if stored_index > index then -- the clock stepped back
        index, start = stored_index, stored_index * window
        at = start
      end
    end
  end
  local finish, reset_after, remaining = start + window, 0, 0
  if count > 0 then reset_after = finish - now end
  if count < units then remaining = units - count end
  local needed, wait = charge.needed, 0
  if count + needed > units then
    wait = now - finish
    if needed > units then wait = NEVER elseif at > now then return nil, true end
    if not charge.debt then return wait, remaining, reset_after, at end
  end
  count = count + cost
  if count > MAX_UNITS then count = MAX_UNITS end
  return wait, remaining, reset_after, at, encode_counts(index, count, 0), finish, keep_ttl
end
