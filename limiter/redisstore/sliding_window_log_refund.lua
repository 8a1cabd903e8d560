
-- log_remove removes up to cost units that were spent at an instant from live times, as bytes.
local function log_remove(times, cost, instant)
  local list = 'L' .. times
  local length = #times / WIDTH
  local first = log_search(list_time, list, length, instant)
  local count = max(0, min(cost, log_search(list_time, list, length, instant + 1) - first)) -- a corrupt log is not in order
  return string.sub(times, 1, WIDTH * first) .. string.sub(times, WIDTH * (first + count) + 1)
end

local function list_refund(value, now, charge, spent_at)
  local list, length, expired = list_read(value, now, charge.window)
  if not list then return false, not length end
  local times = string.sub(list, LIST_HEADER + WIDTH * expired + 1)
  local left = log_remove(times, charge.cost, spent_at)
  if #left == #times then return false end
  if left == '' then return nil end
  local newest = unpack_numbers(ONE_NUMBER, left, #left - WIDTH + 1) -- not after the newest unit before
  return 'L' .. left, newest + charge.window
end

-- ring_overwrite replaces the times of units from unit i, as bytes.
local function ring_overwrite(ring, i, times)
  local slot = (ring.first + i) % ring.capacity
  local before_end = WIDTH * (ring.capacity - slot)
  call('SETRANGE', ring.key, RING_HEADER + WIDTH * slot, string.sub(times, 1, before_end))
  if #times > before_end then call('SETRANGE', ring.key, RING_HEADER, string.sub(times, before_end + 1)) end
end

-- ring_refund moves only the units that were spent after the refunded ones: a log can have a million.
local function ring_refund(key, now, charge, spent_at)
  local ring, is_ahead = ring_read(key, now, charge.window)
  if not ring then return false, not is_ahead end
  local first = max(ring.expired, log_search(ring_time, ring, ring.length, spent_at))
  local count = min(charge.cost, log_search(ring_time, ring, ring.length, spent_at + 1) - first)
  if count <= 0 then return false, ring.is_corrupt end
  if count == ring.live then return nil end
  local newer = ring.length - first - count
  local newest = ring_time(ring, newer > 0 and ring.length - 1 or first - 1)
  local moved = ring_times(ring, first + count, newer)
  if ring.is_corrupt or newest > ring.at or #moved < WIDTH * newer then return false, true end
  if ring.header ~= RING_HEADER then
    first = first - ring.expired
    ring_rewrite(ring, ring_live_times(ring), ring.capacity)
  end
  ring_overwrite(ring, first, moved)
  ring.length, ring.newest = ring.length - count, newest
  ring_write_header(ring)
  return false
end

local function sliding_window_log_refund(value, now, charge, key, spent_at)
  if value == nil then return ring_refund(key, now, charge, spent_at) end
  return list_refund(value, now, charge, spent_at)
end
