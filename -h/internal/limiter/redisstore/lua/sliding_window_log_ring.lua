-- A ring stores a run of units that were charged at one instant as one entry, whatever their number:
--   mark, newest time (us), sum of all units, and up to three pieces: 36 bytes. Then the entries, of 8 bytes: the time of a run, and the sum of all
--   units before it, see pack_entry.
-- So both searches, by time and by units, take O(log entries) reads, and a charge writes one entry, or only the header if the newest run has
-- the same time. Entries are in the order of time in pieces. A piece is a range of slots. A log has one piece that grows, and continues in the first
-- slot when it reaches the slot after the limit and older entries have been removed: then it has two pieces. If the second one reaches the first
-- one, because the limit was raised, the log continues after the first one. Nothing is ever moved to make room, so the limits of the requests on a
-- log can differ in any way. A log of at most a million units has fewer than SLOTS slots: the third piece begins at a slot below that number,
-- and while it is the third one, all of its entries count.
local SUMS, SLOTS = 1048576, 2097152 -- sums are modulo SUMS; a piece is stored as start * SLOTS + length

-- ring_slot returns the slot of entry i; entry 0 is the oldest.
local function ring_slot(ring, i)
  if i < ring.length1 then return ring.start1 + i end
  i = i - ring.length1
  if i < ring.length2 then return ring.start2 + i end
  return ring.start3 + i - ring.length2
end

-- ring_entry returns the time of entry i and the sum before it. If the value lacks the slot, it marks the ring as corrupt.
local function ring_entry(ring, i)
  local from = 36 + 8 * ring_slot(ring, i)
  local bytes = call('GETRANGE', ring.key, string.format('%d', from), string.format('%d', from + 7))
  if #bytes < 8 then
    ring.is_corrupt = true
    return 0, 0
  end
  local high, low = unpack_numbers('>I4I4', bytes)
  local before = low % SUMS
  local newest = ring.newest
  return newest - (newest - high * 4096 - (low - before) / SUMS) % 17592186044416, before
end

-- ring_search returns the first entry, from entry i on, whose time, or with a base whose number of units since that sum, is at least a number,
-- and the sum before that entry. If there is no such entry, it returns the length. Mostly, it is one of the first entries.
local function ring_search(ring, i, least, base)
  local low, high, step, high_before = i, ring.length, 1, ring.total
  while low < high do
    local time, before = ring_entry(ring, i)
    local number = time
    if base then number = (before - base) % SUMS end
    if number < least then low = i + 1 else high, high_before = i, before end
    if high == ring.length and step > 0 then
      i = min(i + step, high - 1)
      step = step * 2
    else
      i, step = floor((low + high) / 2), 0
    end
  end
  return low, high_before
end

-- ring_read reads the header, and finds the live entries. It returns nil and the problem of the value if there is one, see charge.lua.
local function ring_read(value, key, now, window)
  if #value < 36 then return nil, 'corrupt' end
  local newest, total, first, second, third = unpack_numbers('>I7I7I7I7I7', value, 2)
  local length1, length2, length3 = first % SLOTS, second % SLOTS, third % SLOTS
  local ring = {
    key = key, window = window, newest = newest, total = total, at = now, length = length1 + length2 + length3,
    start1 = (first - length1) / SLOTS, length1 = length1, start2 = (second - length2) / SLOTS, length2 = length2,
    start3 = (third - length3) / SLOTS, length3 = length3, expired = 0, base = 0, used = 0, is_corrupt = false,
  }
  if newest > now then ring.at = newest end -- the clock may have stepped back
  if total >= SUMS or length1 == 0 or ring.length > SLOTS then return nil, 'corrupt' end
  if max(ring.start1 + length1, ring.start2 + length2, ring.start3 + length3) > SLOTS then return nil, 'corrupt' end
  if ring.at > now + window then return nil, 'ahead' end
  if newest + window <= ring.at then -- all have expired
    ring.expired = ring.length
    return ring
  end
  ring.expired, ring.base = ring_search(ring, 0, ring.at - window + 1)
  ring.used = (total - ring.base) % SUMS
  local live = ring.length - ring.expired
  if ring.is_corrupt or live == 0 or ring.used < live or ring.used > 1000000 then return nil, 'corrupt' end
  return ring
end

-- ring_drop_expired removes the expired entries from the pieces. Not all entries have expired.
local function ring_drop_expired(ring)
  local expired = ring.expired
  while expired >= ring.length1 do
    expired = expired - ring.length1
    ring.start1, ring.length1, ring.start2, ring.length2 = ring.start2, ring.length2, ring.start3, ring.length3
    ring.start3, ring.length3 = 0, 0
  end
  ring.start1, ring.length1 = ring.start1 + expired, ring.length1 - expired
  ring.length, ring.expired = ring.length - ring.expired, 0
end

-- ring_write_header writes the header. The key expires with the newest unit.
local function ring_write_header(ring)
  local pieces = 1
  if ring.length3 > 0 then pieces = 3 elseif ring.length2 > 0 then pieces = 2 end
  call('SETRANGE', ring.key, '0', char(82 + pieces) .. pack('>I7I7I7I7I7', ring.newest, ring.total,
    ring.start1 * SLOTS + ring.length1, ring.start2 * SLOTS + ring.length2, ring.start3 * SLOTS + ring.length3))
  call('PEXPIREAT', ring.key, to_milliseconds(ring.newest + ring.window))
end

-- ring_next_slot adds a slot to the last piece, or begins another piece.
local function ring_next_slot(ring, units)
  local length1, length2, length3 = ring.length1, ring.length2, ring.length3
  if length3 > 0 then
    ring.length3 = length3 + 1
  elseif length2 > 0 and ring.start2 + length2 ~= ring.start1 then
    ring.length2 = length2 + 1
  elseif length2 > 0 then
    ring.start3, ring.length3 = ring.start1 + length1, 1
  elseif ring.start1 > 0 and ring.start1 + length1 >= units then
    ring.start2, ring.length2 = 0, 1
  else
    ring.length1 = length1 + 1
  end
  ring.length = ring.length + 1
  return ring_slot(ring, ring.length - 1)
end

-- ring_append appends cost units, and removes the expired ones.
local function ring_append(ring, units, cost)
  ring_drop_expired(ring)
  if ring.at > ring.newest then
    local to = 36 + 8 * ring_next_slot(ring, units)
    call('SETRANGE', ring.key, string.format('%d', to), pack_entry(ring.at, ring.total))
    ring.newest = ring.at
  end
  ring.total = (ring.total + cost) % SUMS
  ring_write_header(ring)
end

local function ring_step(value, now, charge, key)
  local units, cost, window = charge.units, charge.cost, charge.window
  local ring, problem = ring_read(value, key, now, window)
  if not ring then return nil, problem end
  local used, at, remaining, reset_after = ring.used, ring.at, 0, 0
  if used < units then remaining = units - used end
  if used > 0 then reset_after = ring.newest + window - now end
  local excess = used + cost - units
  if excess > 0 then
    if cost > units then return NEVER, remaining, reset_after, at end
    local last = ring_search(ring, ring.expired, excess, ring.base) - 1 -- the excess has expired when this run has
    local instant = ring_entry(ring, last)
    if ring.is_corrupt or not is_live(instant, at, window) then return nil, 'corrupt' end
    if instant > now then return nil, 'ahead' end
    return now - instant - window, remaining, reset_after, at
  end
  if used == 0 then return 0, remaining, 0, at, list_to_ring('L', 0, 0, at, cost), at + window, false end -- it gets a new, short value
  return 0, remaining, reset_after, at, nil, at + window, nil, function() ring_append(ring, units, cost) end
end
