-- FirstRequestWindow allows a charge if the units of the current window plus the cost stay within the limit. A window begins
-- with its first unit. The value has two numbers of 7 bytes: when the window began (us), and its units.

-- first_request_window_read returns when the window began and its units, and whether the value is of that window; or nil and the problem of the
-- value, see charge.lua.
local function first_request_window_read(value, now, window)
  if not value then return now, 0, false end
  if #value ~= 14 then return nil, 'corrupt' end
  local opened, count = unpack_numbers('>I7I7', value)
  if count > MAX_UNITS then return nil, 'corrupt' end
  if opened > now + window then return nil, 'ahead' end
  if now >= opened + window then return now, 0, false end
  return opened, count, true
end

local function first_request_window_step(value, now, charge)
  local units, needed = charge.units, charge.needed
  local opened, count, keep_ttl = first_request_window_read(value, now, charge.window)
  if not opened then return nil, count end -- the problem
  local at, finish = max(now, opened), opened + charge.window
  local remaining, reset_after = 0, 0
  if count < units then remaining = units - count end
  if count > 0 then reset_after = finish - now end
  if needed > units then return NEVER, remaining, reset_after, at end
  if count + needed > units then
    if at > now then return nil, 'ahead' end
    return now - finish, remaining, reset_after, at
  end
  return 0, remaining, reset_after, at, pack('>I7I7', opened, count + charge.cost), finish, keep_ttl
end
