-- All numbers are doubles: integers are exact below 2^53, and all numbers here stay below. The remainder of such integers is exact, too.
-- What runs for each charge compares numbers itself: a call of a function takes as long as ten operations.
local call, KEYS, ARGV = redis.call, KEYS, ARGV -- locals are faster than globals
local byte, char, floor, max, min = string.byte, string.char, math.floor, math.max, math.min

-- A run of a script executes all of it, and a function takes as long to define as a small command for each local outside that it uses. So only
-- these numbers have a name in several functions: the wait of a cost above the limit, and the units of the largest counter. A stored number that is
-- larger proves that no script wrote the value.
local NEVER, MAX_UNITS = -9007199254740991, 1000000000

-- WRONG_TYPE is read in place of the value of a key that is not a string. No script writes it, so the counter starts over: the next write replaces the
-- key.
local WRONG_TYPE = '!'

-- format_integer formats a number for a Redis command; tostring would round above 10^14. '%.0f' takes twice as long, and '%d' can be
-- limited to 32 bits.
local function format_integer(number)
  if number < 1000000000 then return string.format('%d', number) end
  local low = number % 1000000000
  return string.format('%d%09d', (number - low) / 1000000000, low)
end

-- to_milliseconds rounds up: a key can live up to one millisecond too long, never too short.
local function to_milliseconds(microseconds)
  local rest = microseconds % 1000
  if rest > 0 then microseconds = microseconds + 1000 - rest end
  return format_integer(microseconds / 1000)
end

-- pack and unpack_numbers are those of the struct library of Redis. A stored number has 7 bytes, big-endian: '>I7I7' is the format of two. In an
-- entry of a log, it has 4.
local struct = rawget(_G, 'struct') or {}
local pack, unpack_numbers = struct.pack, struct.unpack

if not pack then -- a server that behaves like Redis, without the library
  pack = function(format, ...)
    local bytes = ''
    for i, number in ipairs({...}) do
      local packed = ''
      for _ = 1, tonumber(string.sub(format, 2 * i + 1, 2 * i + 1)) do
        packed = char(number % 256) .. packed
        number = floor(number / 256)
      end
      bytes = bytes .. packed
    end
    return bytes
  end

  unpack_numbers = function(format, bytes, from)
    local numbers, at = {}, from or 1
    for i = 1, (#format - 1) / 2 do
      local number = 0
      for _ = 1, tonumber(string.sub(format, 2 * i + 1, 2 * i + 1)) do
        number, at = number * 256 + byte(bytes, at), at + 1
      end
      numbers[i] = number
    end
    return unpack(numbers)
  end
end

-- read_value returns the first bytes of a value, false if the key does not exist. No value is longer
-- except the ring of a log, which can have 16 MB, and a corrupt one: 1794 bytes are the largest list of a log, and a byte that proves that it is one.
-- Indexes of commands are text: a number as an argument takes Redis three times as long.
local function read_value(key)
  local value = redis.pcall('GETRANGE', key, '0', '1793')
  if value == '' then return false end
  if type(value) == 'table' then
    if string.find(value.err, 'WRONGTYPE', 1, true) then return WRONG_TYPE end
    return call('GETRANGE', key, '0', '0') -- raises the error
  end
  return value
end

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

local function load_ring()

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

return ring_step
end

local function list_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local list, length, expired, at, newest = list_read(value, now, window)
  if not list then return nil, length end -- the problem
  local live, remaining, reset_after = length - expired, 0, 0
  if live < units then remaining = units - live end
  if live > 0 then reset_after = newest + window - now end
  local excess = live + cost - units
  if excess > 0 then
    if cost > units then return NEVER, remaining, reset_after, at end
    local last = list_time(list, expired + excess - 1) -- the excess has expired when this unit has
    if not is_live(last, at, window) then return nil, 'corrupt' end
    if last > now then return nil, 'ahead' end
    return now - last - window, remaining, reset_after, at
  end
  if units > 256 then
    list = list_to_ring(list, length, expired, at, cost)
  else
    local unit = pack('>I7', at)
    if cost ~= 1 then unit = string.rep(unit, cost) end
    if expired > 0 then list = 'L' .. string.sub(list, 7 * expired + 2) end
    list = list .. unit
  end
  return 0, remaining, reset_after, at, list, at + window, false
end

-- The functions of the ring are defined only when a log is one.
local ring_function

local function sliding_window_log_step(value, now, charge, key)
  if not is_ring(value) then return list_step(value, now, charge) end
  ring_function = ring_function or load_ring()
  return ring_function(value, now, charge, key)
end

local step = sliding_window_log_step

-- now is the time in microseconds since the epoch: ARGV[1], or that of this server if it is ''.
local now
if ARGV[1] == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = tonumber(ARGV[1])
end

-- spend_one decides a request with one charge. It contains only the algorithm of that charge: for one charge, defining the functions of spend.lua
-- takes longer than everything else.
--   KEYS[1]   the counter
--   ARGV[1]   now in microseconds since the epoch, or '' to read the clock of this server
--   ARGV[2]   'spend', or 'peek' to change nothing
--   ARGV[3]   limit (units)
--   ARGV[4]   window (us)
--   ARGV[5]   cost (units)
--   ARGV[6]   debt, as in spend.lua
--   ARGV[7]   capacity (units); only of buckets
--   ARGV[8]   max delay (us); only of buckets whose charges can wait for their turn
-- Reply: that of spend.
-- Must never happen: a write for a denied charge that is no debt, or on peek; a key without a time to live.
local key, cost, debt = KEYS[1], ARGV[5] + 0, ARGV[6] -- adding 0 makes a number of it, and takes less time than tonumber
local charge = {
  units = ARGV[3] + 0, window = ARGV[4] + 0, capacity = ARGV[7] and ARGV[7] + 0, max_delay = ARGV[8] and ARGV[8] + 0,
  cost = cost, needed = debt == 'unit' and 1 or cost, is_debt = debt ~= '',
}

local problem
local wait, remaining, reset_after, at, next_value, expires_at, keep_ttl, append = step(read_value(key), now, charge, key)
if not wait then
  problem = remaining
  wait, remaining, reset_after, at, next_value, expires_at = step(false, now, charge, key)
end
if expires_at and cost > 0 and ARGV[2] == 'spend' then
  if append then
    append()
  elseif keep_ttl then
    call('SET', key, next_value, 'KEEPTTL')
  else
    call('SET', key, next_value, 'PXAT', to_milliseconds(expires_at))
  end
  remaining, reset_after = remaining - cost, expires_at - now
  if remaining < 0 then remaining = 0 end
end
-- The usual reply is made in one piece, without add_decision.
if wait == 0 and at == now and not problem then return {now, 4 * remaining, reset_after} end

-- How the scripts that decide reply, at the time now (us since the epoch).

-- size is the number of numbers.
local reply, size = {now}, 1

-- add_decision appends the decision about a charge to the reply.
local function add_decision(remaining, reset_after, wait, at)
  local first, marks = size + 1, 0
  size = size + 2
  reply[size] = reset_after
  if wait ~= 0 then
    marks, size = 1, size + 1
    reply[size] = wait
  end
  if at ~= now then
    marks, size = marks + 2, size + 1
    reply[size] = at - now
  end
  reply[first] = 4 * remaining + marks
end

add_decision(remaining, reset_after, wait, at)
if problem then reply[size + 1] = problem == 'ahead' and -1 or 0 end
return reply

