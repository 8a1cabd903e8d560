
-- log_remove removes up to cost units that were spent at an instant from live times, as bytes.
local function log_remove(times, cost, instant)
  local list = 'L' .. times
  local length = #times / WIDTH
  local first = log_search(list_time, list, length, instant)
  local count = max(0, min(cost, log_search(list_time, list, length, instant + 1) - first)) -- a corrupt log is not in order
  return string.sub(times, 1, WIDTH * first) .. string.sub(times, WIDTH * (first + count) + 1)
end

local function list_refund(value, now, charge, spent_at)
  local list, _, expired, at = list_read(value, now, charge.window)
  if not list then return false, true end
  local times = string.sub(list, LIST_HEADER + WIDTH * expired + 1)
  local left = log_remove(times, charge.cost, spent_at)
  if #left == #times then return false end
  if left == '' then return nil end
  local newest = unpack_number(left, #left - WIDTH + 1)
  if newest > at then return false, true end
  return 'L' .. left, newest + charge.window
end

local function ring_refund(key, now, charge, spent_at)
  local ring = ring_read(key, now, charge.window)
  if not ring then return false, true end
  local times = ring_live_times(ring)
  local left = log_remove(times, charge.cost, spent_at)
  if #left == #times then return false end
  if left == '' then return nil end
  local newest = unpack_number(left, #left - WIDTH + 1)
  if newest > ring.at then return false, true end
  ring_rewrite(ring, left, max(ring.capacity, #left / WIDTH))
  ring.newest = newest
  ring_write_header(ring)
  return false
end

local function sliding_window_log_refund(value, now, charge, key, spent_at)
  if value == nil then return ring_refund(key, now, charge, spent_at) end
  return list_refund(value, now, charge, spent_at)
end
