-- FixedWindow allows a charge if the units of the current window plus the cost stay within the limit. Windows are aligned
-- to the epoch. The value is that of counts.lua; previous is always 0.

local function fixed_window_step(value, now, charge)
  local window, units = charge.window, charge.units
  local start = now - now % window
  local index, count, at, keep_ttl = start / window, 0, now, false
  if value then
    local stored_index, stored_count = decode_counts(value, now, window)
    if not stored_index then return nil, stored_count end -- the problem
    if stored_index >= index then -- else the window has ended, and nothing counts
      count, keep_ttl = stored_count, true
      if stored_index > index then -- the clock stepped back: the counter stays in its window
        index, start = stored_index, stored_index * window
        at = start
      end
    end
  end
  local finish, needed = start + window, charge.needed
  local wait, remaining, reset_after = 0, 0, 0
  if count < units then remaining = units - count end
  if count > 0 then reset_after = finish - now end
  if count + needed > units then
    wait = now - finish
    if needed > units then wait = NEVER elseif at > now then return nil, 'ahead' end -- longer than a window
    if not charge.is_debt then return wait, remaining, reset_after, at end
  end
  count = count + charge.cost
  if count > MAX_UNITS then count = MAX_UNITS end -- of a debt
  return wait, remaining, reset_after, at, encode_counts(index, count, 0), finish, keep_ttl
end
