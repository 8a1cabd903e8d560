
local function compact_refund(_, now, charge, key, spent_at, field, odd_key)
  if not read_counter(now, charge.window, false, key, field, odd_key) then return false, true end
  local next_value, expires_at = counted_refund(true, now, charge, key, spent_at)
  if next_value == nil then return delete_counter() end
  return next_value, expires_at, stored_key
end
