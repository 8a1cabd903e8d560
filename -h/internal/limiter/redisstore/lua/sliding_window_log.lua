-- SlidingWindowLog allows a charge if the units allowed in (now - window, now] plus the cost stay within the limit.
-- The value has one of two layouts:
--   list   'L', then the time (us) of each unit in 7 bytes, oldest first. For limits of at most 256 units: read and written as a whole.
--   ring   the units in runs, see sliding_window_log_ring.lua. For larger limits: read and written in place.
-- A larger limit makes a ring of a list when it writes. A smaller limit leaves a ring as it is, until the key expires. Otherwise requests of two
-- tiers would convert the value in turns. Expired units are removed when the next unit is written.

-- pack_entry returns an entry of a ring: 44 bits of a time (us), and 20 bits of the sum of units before it, both modulo these powers of two. The
-- entries of a log are within one window, and it has at most a million units, so differences are exact.
local function pack_entry(time, before)
  local low = time % 4096
  return pack('>I4I4', (time - low) / 4096 % 4294967296, low * 1048576 + before)
end

-- is_ring reports whether a value is a ring. Its mark is 'R' plus the number of its pieces, 1 to 3.
local function is_ring(value)
  if not value then return false end
  local mark = byte(value, 1)
  return mark > 82 and mark <= 85
end

-- is_live reports whether a unit at an instant counts: the oldest or newest live unit of a corrupt log may not.
local function is_live(instant, at, window)
  return instant <= at and instant + window > at
end

local function list_time(list, i)
  return (unpack_numbers('>I7', list, 7 * i + 2))
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
-- time if there is one; or nil and the problem of the value, see charge.lua.
local function list_read(value, now, window)
  local list, at = value or 'L', now
  local length, newest = (#list - 1) / 7, nil
  if byte(list, 1) ~= 76 or length % 1 ~= 0 or length > 256 or value == 'L' then return nil, 'corrupt' end
  if length > 0 then
    newest = list_time(list, length - 1)
    if newest > now then at = newest end -- the clock may have stepped back
  end
  if at > now + window then return nil, 'ahead' end
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
  return 'S' .. pack('>I7I7I7I7I7', at, total + cost, count, 0, 0) .. table.concat(entries)
end
