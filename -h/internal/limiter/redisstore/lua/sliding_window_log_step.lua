local function list_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local list, length, expired, at, newest = list_read(value, now, window)
  if not list then return nil, length end -- the problem
  local live, remaining, reset_after = length - expired, 0, 0
  if live < units then remaining = units - live end
  if live > 0 then reset_after = newest + window - now end
  local excess = live + cost - units
  if excess > 0 then
    if cost > units then return NEVER, remaining, reset_after, at end
    local last = list_time(list, expired + excess - 1) -- the excess has expired when this unit has
    if not is_live(last, at, window) then return nil, 'corrupt' end
    if last > now then return nil, 'ahead' end
    return now - last - window, remaining, reset_after, at
  end
  if units > 256 then
    list = list_to_ring(list, length, expired, at, cost)
  else
    local unit = pack('>I7', at)
    if cost ~= 1 then unit = string.rep(unit, cost) end
    if expired > 0 then list = 'L' .. string.sub(list, 7 * expired + 2) end
    list = list .. unit
  end
  return 0, remaining, reset_after, at, list, at + window, false
end

-- The functions of the ring are defined only when a log is one.
local ring_function

local function sliding_window_log_step(value, now, charge, key)
  if not is_ring(value) then return list_step(value, now, charge) end
  ring_function = ring_function or load_ring()
  return ring_function(value, now, charge, key)
end
