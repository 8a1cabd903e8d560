-- SlidingWindowLog allows a charge if the units allowed in (now - window, now] plus the cost stay within the limit.
-- The value has one of two layouts:
--   list   'L', then the time (us) of each unit, oldest first. For limits of at most MAX_WHOLE_LOG units: read and written as a whole.
--   ring   the units in runs, see sliding_window_log_ring.lua. For larger limits: read and written in place.
-- A larger limit makes a ring of a list when it writes. A smaller limit leaves a ring as it is, until the key expires. Otherwise requests of two
-- tiers would convert the value in turns. Expired units are removed when the next unit is written.
local LIST_HEADER = 1 -- bytes
local LIST_MARK = 76 -- the byte 'L'

-- A ring has a mark, five numbers and entries. The mark is 'R' plus the number of its pieces, 1 to 3.
local RING_MARK, RING_HEADER, LAST_OF_HEADER, ENTRY, ENTRY_FORMAT = 82, 1 + 5 * WIDTH, '35', 8, '>I4I4'
-- An entry has 44 bits of a time (us, modulo TIMES) and 20 bits of a sum of units (modulo SUMS). The entries of a log are within one window,
-- and it has at most MAX_LOG_UNITS units, so both differences are exact. A piece is start * SLOTS + length.
local TIMES, SUMS, SLOTS, TIME_UNIT = 17592186044416, 1048576, 2097152, 4096

local function pack_entry(time, before)
  local low = time % TIME_UNIT
  return pack(ENTRY_FORMAT, (time - low) / TIME_UNIT % 4294967296, low * SUMS + before)
end

-- read_log returns the first bytes of a log: a list, or the header of a ring. The bytes of another value can be cut.
local function read_log(key, units)
  if units <= MAX_WHOLE_LOG then return read_value(key) end
  local value = read_value(key, LAST_OF_HEADER)
  if value and byte(value, 1) == LIST_MARK then return read_value(key) end
  return value
end

local function is_ring(value)
  if not value then return false end
  local mark = byte(value, 1)
  return mark > RING_MARK and mark <= RING_MARK + 3
end

-- is_live reports whether a unit at an instant counts: the oldest or newest live unit of a corrupt log may not.
local function is_live(instant, at, window)
  return instant <= at and instant + window > at
end

local function list_time(list, i)
  return (unpack_numbers(ONE_NUMBER, list, LIST_HEADER + WIDTH * i + 1))
end

-- list_search returns how many of the times, oldest first, are before an instant.
local function list_search(list, length, instant)
  if length == 0 or list_time(list, 0) >= instant then return 0 end
  if list_time(list, length - 1) < instant then return length end
  local last_before, first_after = 0, length - 1
  while first_after - last_before > 1 do
    local middle = floor((last_before + first_after) / 2)
    if list_time(list, middle) < instant then last_before = middle else first_after = middle end
  end
  return first_after
end

-- list_read returns the value as a list, its length, the number of its expired units, the counter's own time, and the newest
-- time if there is one; nil if the value is corrupt, nil and true if it is too far ahead.
local function list_read(value, now, window)
  local list, at = value or 'L', now
  local length, newest = (#list - LIST_HEADER) / WIDTH, nil
  if byte(list, 1) ~= LIST_MARK or length % 1 ~= 0 or length > MAX_WHOLE_LOG or value == 'L' then return nil end
  if length > 0 then
    newest = list_time(list, length - 1)
    if newest > now then at = newest end -- the clock may have stepped back
  end
  if at > now + window then return nil, true end
  return list, length, list_search(list, length, at - window + 1), at, newest
end

-- list_to_ring returns a ring of the live units of a list and of cost units at an instant.
local function list_to_ring(list, length, expired, at, cost)
  local entries, count, newest = {}, 0, nil
  for i = expired, length - 1 do
    local time = list_time(list, i)
    if time ~= newest then
      count, newest = count + 1, time
      entries[count] = pack_entry(time, i - expired)
    end
  end
  local total = length - expired
  if at ~= newest then
    count = count + 1
    entries[count] = pack_entry(at, total)
  end
  return char(RING_MARK + 1) .. pack(FIVE_NUMBERS, at, total + cost, count, 0, 0) .. table.concat(entries)
end

local function list_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local list, length, expired, at, newest = list_read(value, now, window)
  if not list then return nil, length end
  local live, reset_after, remaining = length - expired, 0, 0
  local excess = live + cost - units
  if live < units then remaining = units - live end
  if live > 0 then reset_after = newest + window - now end
  if excess <= 0 then
    if units > MAX_WHOLE_LOG then
      return 0, remaining, reset_after, at, list_to_ring(list, length, expired, at, cost), at + window
    end
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
