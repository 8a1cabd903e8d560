-- list_remove removes up to cost units that were spent at an instant from live times, as bytes.
local function list_remove(times, cost, instant)
  local list = 'L' .. times
  local length = #times / WIDTH
  local first = list_search(list, length, instant)
  local count = max(0, min(cost, list_search(list, length, instant + 1) - first)) -- a corrupt log is not in order
  return string.sub(times, 1, WIDTH * first) .. string.sub(times, WIDTH * (first + count) + 1)
end

local function list_refund(value, now, charge, spent_at)
  local list, length, expired = list_read(value, now, charge.window)
  if not list then return false, not length end
  local times = string.sub(list, LIST_HEADER + WIDTH * expired + 1)
  local left = list_remove(times, charge.cost, spent_at)
  if #left == #times then return false end
  if left == '' then return nil end
  local newest = unpack_numbers(ONE_NUMBER, left, #left - WIDTH + 1) -- not after the newest unit before
  return 'L' .. left, newest + charge.window
end

local function sliding_window_log_refund(value, now, charge, key, spent_at)
  if value == nil then value = read_log(key, charge.units) end
  if not is_ring(value) then return list_refund(value, now, charge, spent_at) end
  return (load_ring())(value, now, charge, key, spent_at)
end
