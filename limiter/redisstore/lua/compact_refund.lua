
local function compact_refund(_, now, charge, key, spent_at, field, odd_key)
  local is_valid, is_ahead = read_counter(now, charge.window, false, key, field, odd_key)
  if not is_valid and not is_ahead then return false, true end
  local next_value, expires_at = counted_refund(true, now, charge, key, spent_at)
  if next_value == nil then return delete_counter() end
  return next_value, expires_at, stored_key
end
