-- list_remove removes up to cost units that were spent at an instant from live times, as bytes.
local function list_remove(times, cost, instant)
  local list = 'L' .. times
  local length = #times / 7
  local first = list_search(list, length, instant)
  local count = max(0, min(cost, list_search(list, length, instant + 1) - first)) -- a corrupt log is not in order
  return string.sub(times, 1, 7 * first) .. string.sub(times, 7 * (first + count) + 1)
end

local function list_refund(value, now, charge, spent_at)
  local list, length, expired = list_read(value, now, charge.window)
  if not list then return length end -- the problem
  local times = string.sub(list, 7 * expired + 2)
  local left = list_remove(times, charge.cost, spent_at)
  if #left == #times then return 'keep' end
  if left == '' then return 'delete' end
  local newest = unpack_numbers('>I7', left, #left - 6) -- not after the newest unit before
  return 'set', 'L' .. left, newest + charge.window
end

local function sliding_window_log_refund(value, now, charge, key, spent_at)
  if not is_ring(value) then return list_refund(value, now, charge, spent_at) end
  return (load_ring())(value, now, charge, key, spent_at)
end
