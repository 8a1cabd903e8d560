
local function first_request_window_refund(value, now, charge, _, spent_at)
  local opened, count, is_stored = first_request_window_read(value, now, charge.window)
  if not opened then return count end -- the problem
  if not is_stored or spent_at < opened or spent_at >= opened + charge.window then return 'keep' end
  count = count - charge.cost
  if count <= 0 then return 'delete' end
  return 'set', pack('>I7I7', opened, count), opened + charge.window
end
