-- SlidingWindowLog allows a charge if the units allowed in (now - window, now] plus the cost stay within the limit.
-- The value has the time of each unit (us), in one of two layouts:
--   list   'L', then the times, oldest first. For small logs: read and written as a whole.
--   ring   'R', four numbers (capacity in slots, next slot, length in units, newest time in us), then the slots. The oldest
--          time is in slot (next - length). For large logs: read and written in place, with O(log length) reads.
-- Expired units are removed when the next unit is written. Both layouts read both, because a limit can change.
local LIST_HEADER, RING_HEADER = 1, 1 + 4 * WIDTH -- length of the headers in bytes
local LIST_MARK, RING_MARK = 76, 82 -- the bytes 'L' and 'R'

-- is_list_length reports whether a list with at least one time can have that length in bytes.
local function is_list_length(length)
  return length > LIST_HEADER and length % WIDTH == LIST_HEADER
end

-- is_ring reports whether a ring can have these numbers in its header.
local function is_ring(capacity, next, length)
  return capacity <= MAX_LOG_UNITS and next < capacity and length > 0 and length <= capacity
end

-- is_live reports whether a unit at an instant counts: the oldest or newest live unit of a corrupt log may not.
local function is_live(instant, at, window)
  return instant <= at and instant + window > at
end

-- log_search returns how many of the times, oldest first, are before an instant. time_at(times, i) returns time i.
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

-- log_as_list returns a value of either layout as a list; nil if it is corrupt.
local function log_as_list(value)
  if not value then return 'L' end
  local mark = byte(value, 1)
  if mark == LIST_MARK then return is_list_length(#value) and value or nil end
  if mark ~= RING_MARK or #value < RING_HEADER then return nil end
  local capacity, next, length = unpack_numbers(THREE_NUMBERS, value, 2)
  if not is_ring(capacity, next, length) then return nil end
  local first = (next - length) % capacity
  local from = RING_HEADER + WIDTH * first + 1
  local before_end = string.sub(value, from, from + WIDTH * min(length, capacity - first) - 1)
  local list = 'L' .. before_end .. string.sub(value, RING_HEADER + 1, RING_HEADER + WIDTH * length - #before_end)
  return #list == LIST_HEADER + WIDTH * length and list or nil
end

local function list_time(list, i)
  return (unpack_numbers(ONE_NUMBER, list, LIST_HEADER + WIDTH * i + 1))
end

-- list_read returns the value as a list, its length, the number of its expired units, the counter's own time, and the newest
-- time if there is one; nil if the value is corrupt, nil and true if it is too far ahead.
local function list_read(value, now, window)
  local list, at = log_as_list(value), now
  if not list then return nil end
  local length, newest = (#list - LIST_HEADER) / WIDTH, nil
  if length > 0 then
    newest = list_time(list, length - 1)
    if newest > now then at = newest end -- the clock may have stepped back
  end
  if at > now + window then return nil, true end
  return list, length, log_search(list_time, list, length, at - window + 1), at, newest
end

local function sliding_window_log_list_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local list, length, expired, at, newest = list_read(value, now, window)
  if not list then return nil, length end
  local live, reset_after, remaining = length - expired, 0, 0
  local excess = live + cost - units
  if live < units then remaining = units - live end
  if live > 0 then reset_after = newest + window - now end
  if excess <= 0 then
    local unit = pack(ONE_NUMBER, at)
    if cost ~= 1 then unit = string.rep(unit, cost) end
    if expired > 0 then list = 'L' .. string.sub(list, LIST_HEADER + WIDTH * expired + 1) end
    return 0, remaining, reset_after, at, list .. unit, at + window
  end
  if cost > units then return NEVER, remaining, reset_after, at end
  local last = list_time(list, expired + excess - 1) -- the excess has expired when this unit has
  if not is_live(last, at, window) then return nil end
  if last > now then return nil, true end
  return now - last - window, remaining, reset_after, at
end
