-- All numbers are doubles: integers are exact below 2^53, and all numbers here stay below. The remainder of such integers is exact, too.
-- What runs for each charge compares numbers itself: a call of a function takes as long as ten operations.
local call, KEYS, ARGV = redis.call, KEYS, ARGV -- locals are faster than globals
local byte, char, floor, max, min = string.byte, string.char, math.floor, math.max, math.min

-- NEVER is the wait of a cost above the limit.

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

-- Values that no script wrote can have any bytes. Larger numbers than these prove that a value is corrupt. A time can be
-- later than now because the clock stepped back. If it is more than one window later, the clock was wrong when it was
-- written, and the counter starts over.

-- MAX_WHOLE_LOG is the greatest limit, in units, of a log that is read and written as a whole.

-- read_value returns the bytes of a value up to index last, false if the key does not exist or is not a string. No value that is read as a whole is
-- longer than the default: the largest list of a log, and a byte that proves that it is one. A ring can have 16 MB. Indexes of commands are text: a number
-- as an argument takes Redis three times as long.
local function read_value(key, last)
  local value = redis.pcall('GETRANGE', key, '0', last or '1793')
  if value == '' then return false end
  if type(value) == 'table' then
    if string.find(value.err, 'WRONGTYPE', 1, true) then return false end
    return call('GETRANGE', key, '0', '0') -- raises the error
  end
  return value
end

-- IN_PLACE marks a value that a function has written, or will write: it must be read again.

-- A stored number has 7 bytes, big-endian, in an entry of a log 4. pack and unpack_numbers are those of the struct library of Redis.
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

-- read_capacity returns the capacity of a bucket (units), and the longest delay (us) of a LeakyBucket if it is bounded. Then
-- the argument is negative: the capacity plus 2^31 times the delay in milliseconds.
local function read_capacity(argument)
  if argument >= 0 then return argument end
  local capacity = -argument % 2147483648
  return capacity, (-argument - capacity) / 2147483648 * 1000
end

-- read_cost returns the cost of a charge (units), the units that must remain so that it is allowed, and whether it is a debt:
-- then one unit must remain, and the charge is counted even if it is denied. The argument of a debt is negative. If all units
-- of the debt must remain, 2^31 is added to its cost.
local function read_cost(argument)
  if argument >= 0 then return argument, argument, false end
  if argument >= -2147483648 then return -argument, 1, true end
  return -argument - 2147483648, -argument - 2147483648, true
end

-- SlidingWindowLog allows a charge if the units allowed in (now - window, now] plus the cost stay within the limit.
-- The value has one of two layouts:
--   list   'L', then the time (us) of each unit, oldest first. For limits of at most MAX_WHOLE_LOG units: read and written as a whole.
--   ring   the units in runs, see sliding_window_log_ring.lua. For larger limits: read and written in place.
-- A larger limit makes a ring of a list when it writes. A smaller limit leaves a ring as it is, until the key expires. Otherwise requests of two
-- tiers would convert the value in turns. Expired units are removed when the next unit is written.

-- A ring has a mark, five numbers and entries. The mark is 'R' plus the number of its pieces, 1 to 3.
-- An entry has 44 bits of a time (us, modulo TIMES) and 20 bits of a sum of units (modulo SUMS). The entries of a log are within one window,
-- and it has at most MAX_LOG_UNITS units, so both differences are exact. A piece is start * SLOTS + length.

local function pack_entry(time, before)
  local low = time % 4096
  return pack('>I4I4', (time - low) / 4096 % 4294967296, low * 1048576 + before)
end

-- read_log returns the first bytes of a log: a list, or the header of a ring. The bytes of another value can be cut.
local function read_log(key, units)
  if units <= 256 then return read_value(key) end
  local value = read_value(key, '35')
  if value and byte(value, 1) == 76 then return read_value(key) end
  return value
end

local function is_ring(value)
  if not value then return false end
  local mark = byte(value, 1)
  return mark > 82 and mark <= 82 + 3
end

-- is_live reports whether a unit at an instant counts: the oldest or newest live unit of a corrupt log may not.
local function is_live(instant, at, window)
  return instant <= at and instant + window > at
end

local function list_time(list, i)
  return (unpack_numbers('>I7', list, 1 + 7 * i + 1))
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
  local length, newest = (#list - 1) / 7, nil
  if byte(list, 1) ~= 76 or length % 1 ~= 0 or length > 256 or value == 'L' then return nil end
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
  return char(82 + 1) .. pack('>I7I7I7I7I7', at, total + cost, count, 0, 0) .. table.concat(entries)
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
    if units > 256 then
      return 0, remaining, reset_after, at, list_to_ring(list, length, expired, at, cost), at + window
    end
    local unit = pack('>I7', at)
    if cost ~= 1 then unit = string.rep(unit, cost) end
    if expired > 0 then list = 'L' .. string.sub(list, 1 + 7 * expired + 1) end
    return 0, remaining, reset_after, at, list .. unit, at + window
  end
  if cost > units then return (-9007199254740991), remaining, reset_after, at end
  local last = list_time(list, expired + excess - 1) -- the excess has expired when this unit has
  if not is_live(last, at, window) then return nil end
  if last > now then return nil, true end
  return now - last - window, remaining, reset_after, at
end

local function load_ring()
-- A ring stores a run of units that were charged at one instant as one entry, whatever their number:
--   mark, newest time (us), sum of all units, and up to three pieces; then the entries: the time of a run, and the sum of all units before it.
-- So both searches, by time and by units, take O(log entries) reads, and a charge writes one entry, or only the header if the newest run has
-- the same time. Entries are in the order of time in pieces. A piece is a range of slots. A log has one piece that grows, and continues in the first
-- slot when it reaches the slot after the limit and older entries have been removed: then it has two pieces. If the second one reaches the first
-- one, because the limit was raised, the log continues after the first one. Nothing is ever moved to make room, so the limits of the requests on a
-- log can differ in any way. A log has fewer than 2 * MAX_LOG_UNITS slots: the third piece begins at a slot below that number,
-- and while it is the third one, all of its entries count.

-- ring_slot returns the slot of entry i; entry 0 is the oldest.
local function ring_slot(ring, i)
  if i < ring.length1 then return ring.start1 + i end
  i = i - ring.length1
  if i < ring.length2 then return ring.start2 + i end
  return ring.start3 + i - ring.length2
end

-- ring_entry returns the time of entry i and the sum before it. If the value lacks the slot, it marks the ring as corrupt.
local function ring_entry(ring, i)
  local from = (1 + 5 * 7) + 8 * ring_slot(ring, i)
  local bytes = call('GETRANGE', ring.key, string.format('%d', from), string.format('%d', from + 8 - 1))
  if #bytes < 8 then
    ring.is_corrupt = true
    return 0, 0
  end
  local high, low = unpack_numbers('>I4I4', bytes)
  local before = low % 1048576
  local newest = ring.newest
  return newest - (newest - high * 4096 - (low - before) / 1048576) % 17592186044416, before
end

-- ring_search returns the first entry, from entry i on, whose time, or with a base whose number of units since that sum, is at least a number,
-- and the sum before that entry. If there is no such entry, it returns the length. Mostly, it is one of the first entries.
local function ring_search(ring, i, least, base)
  local low, high, step, high_before = i, ring.length, 1, ring.total
  while low < high do
    local time, before = ring_entry(ring, i)
    local number = time
    if base then number = (before - base) % 1048576 end
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

-- ring_read reads the header, and finds the live entries. It returns nil if the value is corrupt, nil and true if it
-- is too far ahead.
local function ring_read(value, key, now, window)
  if #value < (1 + 5 * 7) then return nil end
  local newest, total, first, second, third = unpack_numbers('>I7I7I7I7I7', value, 2)
  local length1, length2, length3 = first % 2097152, second % 2097152, third % 2097152
  local ring = {
    key = key, window = window, newest = newest, total = total, at = now, length = length1 + length2 + length3,
    start1 = (first - length1) / 2097152, length1 = length1, start2 = (second - length2) / 2097152, length2 = length2,
    start3 = (third - length3) / 2097152, length3 = length3, expired = 0, base = 0, used = 0, is_corrupt = false,
  }
  if newest > now then ring.at = newest end -- the clock may have stepped back
  if total >= 1048576 or length1 == 0 or ring.length > 2097152 then return nil end
  if max(ring.start1 + length1, ring.start2 + length2, ring.start3 + length3) > 2097152 then return nil end
  if ring.at > now + window then return nil, true end
  if newest + window <= ring.at then -- all have expired
    ring.expired = ring.length
    return ring
  end
  ring.expired, ring.base = ring_search(ring, 0, ring.at - window + 1)
  ring.used = (total - ring.base) % 1048576
  local live = ring.length - ring.expired
  if ring.is_corrupt or live == 0 or ring.used < live or ring.used > 1000000 then return nil end
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
    ring.start1 * 2097152 + ring.length1, ring.start2 * 2097152 + ring.length2, ring.start3 * 2097152 + ring.length3))
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
    local to = (1 + 5 * 7) + 8 * ring_next_slot(ring, units)
    call('SETRANGE', ring.key, string.format('%d', to), pack_entry(ring.at, ring.total))
    ring.newest = ring.at
  end
  ring.total = (ring.total + cost) % 1048576
  ring_write_header(ring)
end

local function ring_step(value, now, charge, key)
  local units, cost = charge.units, charge.cost
  local ring, is_ahead = ring_read(value, key, now, charge.window)
  if not ring then return nil, is_ahead end
  local used, at, remaining, reset_after = ring.used, ring.at, 0, 0
  local excess = used + cost - units
  if used < units then remaining = units - used end
  if used > 0 then reset_after = ring.newest + ring.window - now end
  if excess <= 0 then
    if used == 0 then return 0, remaining, 0, at, list_to_ring('L', 0, 0, at, cost), at + ring.window end
    return 0, remaining, reset_after, at, function() ring_append(ring, units, cost) end, at + ring.window, 0
  end
  if cost > units then return (-9007199254740991), remaining, reset_after, at end
  local last = ring_search(ring, ring.expired, excess, ring.base) - 1 -- the excess has expired when this run has
  local instant = ring_entry(ring, last)
  if ring.is_corrupt or not is_live(instant, at, ring.window) then return nil end
  if instant > now then return nil, true end
  return now - instant - ring.window, remaining, reset_after, at
end
return ring_step
end

-- The functions of the ring are defined only when a log is one.
local ring_function

local function sliding_window_log_step(value, now, charge, key)
  if value == nil then value = read_log(key, charge.units) end
  if is_ring(value) then
    ring_function = ring_function or load_ring()
    return ring_function(value, now, charge, key)
  end
  return list_step(value, now, charge)
end

local step = sliding_window_log_step

-- spend_one decides a request with one charge. It contains only the algorithm of that charge.
--   KEYS[1]   the counter; of a compact counter the key of its block
--   KEYS[2]   the second key of a compact SlidingWindowCounter
--   ARGV[1]   'spend', or 'peek' to change nothing
--   ARGV[2]   limit (units)
--   ARGV[3]   window (us)
--   ARGV[4]   capacity (only for buckets, see read_capacity)
--   ARGV[5]   cost (units, see read_cost)
--   ARGV[6]   the field of a compact counter
--   ARGV[6], of a compact counter ARGV[7]
--             now in microseconds since the epoch; absent to read the clock of this server
-- Reply: that of spend.
-- Must never happen: a write for a denied charge that is no debt, or on peek; a key without a time to live.
local key, now = KEYS[1], ARGV[false and 7 or 6]
if now then
  now = tonumber(now)
else
  now = call('TIME')
  now = now[1] * 1000000 + now[2]
end
local capacity, max_delay = read_capacity(ARGV[4] + 0)
local cost, needed, debt = read_cost(ARGV[5] + 0)
local charge = {
  units = ARGV[2] + 0, window = ARGV[3] + 0, capacity = capacity, max_delay = max_delay,
  cost = cost, needed = needed, debt = debt, queues = false,
}

local value
if false then value = call('MGET', key)[1] end
local wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = step(value, now, charge, key, ARGV[6], KEYS[2])
local corrupt
if not wait then
  corrupt = remaining and -1 or 0
  wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = step(false, now, charge, key, ARGV[6], KEYS[2])
end
if next_value and cost > 0 and ARGV[1] == 'spend' then
  if type(next_value) == 'function' then
    next_value()
  elseif false then
    call('HSET', keep_ttl, ARGV[6], next_value)
  elseif keep_ttl then
    call('SET', key, next_value, 'KEEPTTL')
  else
    call('SET', key, next_value, 'PXAT', to_milliseconds(expires_at))
  end
  remaining, reset_after = remaining - cost, expires_at - now
  if remaining < 0 then remaining = 0 end
end
if wait == 0 and at == now and not corrupt then return {now, 4 * remaining, reset_after} end -- as add_decision

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
reply[size + 1] = corrupt
return reply
