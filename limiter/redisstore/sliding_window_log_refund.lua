
-- log_without takes as many of cost units out of live times, as bytes, as were admitted at an instant.
local function log_without(times, cost, instant)
  local list = 'L' .. times
  local length = #times / WIDTH
  local first = log_search(list_time, list, length, instant)
  local count = min(cost, log_search(list_time, list, length, instant + 1) - first)
  return string.sub(times, 1, WIDTH * first) .. string.sub(times, WIDTH * (first + count) + 1)
end

local function list_refund(value, now, charge, at)
  local list, _, expired = list_open(value, now, charge.window)
  local times = string.sub(list, LOG_LIST + WIDTH * expired + 1)
  local left = log_without(times, charge.cost, at)
  if #left == #times then return false end
  if left == '' then return nil end
  return 'L' .. left, unpack_number(left, #left - WIDTH + 1) + charge.window
end

local function ring_refund(key, now, charge, at)
  local ring = ring_open(key, now, charge.window)
  local times = ring_live(ring)
  local left = log_without(times, charge.cost, at)
  if #left == #times then return false end
  if left == '' then return nil end
  ring_lay(ring, left, max(ring.capacity, #left / WIDTH))
  ring.newest = unpack_number(left, #left - WIDTH + 1)
  ring_head(ring)
  return false
end

local function sliding_window_log_refund(value, now, charge, key, at)
  if value == nil then return ring_refund(key, now, charge, at) end
  return list_refund(value, now, charge, at)
end
