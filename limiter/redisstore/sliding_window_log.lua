-- SlidingWindowLog: admits iff the units admitted in (now - window, now] plus the cost stay within the limit.
-- The value is the times of the units (us), in one of two layouts:
--   list   'L', then the times, oldest first. For small logs: read whole and written whole.
--   ring   'R', four numbers (capacity in slots, next slot, length in units, newest in us), then capacity slots, oldest
--          to newest from slot (next - length). For large logs: read and written in place, in O(log length) reads.
-- What has expired is forgotten when the next unit is written. Either way reads both, for a limit may have been edited.
local LOG_LIST, LOG_RING, LOG_L = 1, 1 + 4 * WIDTH, 76 -- lengths of what stands before the times, and 'L' as a byte

-- log_search is how many of so many times, oldest first, lie before an instant; time_at(times, i) is the one with index i.
local function log_search(time_at, times, length, instant)
  if length == 0 or time_at(times, 0) >= instant then return 0 end
  if time_at(times, length - 1) < instant then return length end
  local last_before, first_after = 0, length - 1
  while first_after - last_before > 1 do
    local middle = floor((last_before + first_after) / 2)
    if time_at(times, middle) < instant then last_before = middle else first_after = middle end
  end
  return first_after
end

-- log_list is a value as a list.
local function log_list(value)
  if not value then return 'L' end
  if byte(value, 1) == LOG_L then return value end
  local capacity, next = unpack_pair(value, 2)
  local length = unpack_number(value, 2 + 2 * WIDTH)
  local first = (next - length) % capacity
  local from = LOG_RING + WIDTH * first + 1
  local straight = string.sub(value, from, from + WIDTH * min(length, capacity - first) - 1)
  return 'L' .. straight .. string.sub(value, LOG_RING + 1, LOG_RING + WIDTH * length - #straight)
end

local function list_time(list, i)
  return unpack_number(list, LOG_LIST + WIDTH * i + 1)
end

-- list_open is a value as a list, its length, the units of it that have expired, and its own time.
local function list_open(value, now, window)
  local list, at = log_list(value), now
  local length = (#list - LOG_LIST) / WIDTH
  if length > 0 then at = max(now, list_time(list, length - 1)) end -- the clock may have stepped back
  return list, length, log_search(list_time, list, length, at - window + 1), at
end

local function sliding_window_log_list_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local list, length, expired, at = list_open(value, now, window)
  local live, reset_after = length - expired, 0
  local remaining, excess = max(0, units - live), live + cost - units
  if live > 0 then reset_after = list_time(list, length - 1) + window - now end
  if excess <= 0 then
    local unit = pack(at)
    if cost ~= 1 then unit = string.rep(unit, cost) end
    if expired > 0 then list = 'L' .. string.sub(list, LOG_LIST + WIDTH * expired + 1) end
    return 0, remaining, reset_after, at, list .. unit, at + window
  end
  local wait = NEVER
  if cost <= units then wait = now - list_time(list, expired + excess - 1) - window end -- once the excess has expired
  return wait, remaining, reset_after, at
end
