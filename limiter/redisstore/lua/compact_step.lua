
local function compact_step(value, now, charge, key, field, odd_key)
  local is_valid, is_ahead = read_counter(now, charge.window, value == false, key, field, odd_key)
  if not is_valid then return nil, is_ahead end
  local wait, remaining, reset_after, at, next_value, expires_at = counted_step(true, now, charge)
  return wait, remaining, reset_after, at, next_value, expires_at, stored_key
end
