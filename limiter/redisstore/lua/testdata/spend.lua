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

local prefetched

-- With several keys, most counters have the same window and small counts. Their texts are cached under the negative number, because
-- some Lua versions allocate an array up to a positive index.
local count_cache = KEYS[2] and {}

-- The value of a counted window has three numbers: the index of the current window since the epoch, the units of that
-- window, and the units of the previous one. Small numbers are stored as one integer, which Redis keeps in 16 bytes: the
-- three numbers in radix 256, 4096 or 65536, and in the lowest two bits which radix it is. Larger ones are packed.
local function encode_counts(index, current, previous)
  local radix, radix_id, largest = 256, 0, current
  if previous > current then largest = previous end
  if largest >= 4096 then radix, radix_id = 65536, 2 elseif largest >= 256 then radix, radix_id = 4096, 1 end
  local number = ((index * radix + current) * radix + previous) * 4 + radix_id
  if largest < radix and number < 9007199254740992 then
    local text = count_cache and count_cache[-number]
    if text then return text end
    text = format_integer(number)
    if count_cache then count_cache[-number] = text end
    return text
  end
  return pack('>I7I7I7', index, current, previous)
end

-- decode_counts returns index, current and previous; nil if the value is corrupt, nil and true if it is too far ahead.
local function decode_counts(value, now, window)
  local index, current, previous
  if #value == 3 * 7 then
    index, current, previous = unpack_numbers('>I7I7I7', value)
    if current > 1000000000 or previous > 1000000000 then return nil end
  else
    local number = tonumber(value)
    if not number or number < 0 or number >= 9007199254740992 then return nil end
    local radix_id, radix = number % 4, 256
    if radix_id == 1 then radix = 4096 elseif radix_id == 2 then radix = 65536 elseif radix_id ~= 0 then return nil end
    number = (number - radix_id) / 4
    previous = number % radix
    number = (number - previous) / radix
    current = number % radix
    index = (number - current) / radix
  end
  if index * window > now + window then return nil, true end
  return index, current, previous
end

-- mul_div returns the integer quotient and the remainder of a * b / c. It is exact for a < 2^30 and b, c <= 2^42. If the
-- product is not exact in one step, it multiplies ten bits of a at a time: remainder * 2^10 + ten bits * b stays below 2^53.
local function mul_div(a, b, c)
  local product = a * b
  local remainder = product % c
  if product < 9007199254740992 then return (product - remainder) / c, remainder end
  product = floor(a / 1048576) * b
  remainder = product % c
  local quotient = (product - remainder) / c
  product = remainder * 1024 + floor(a / 1024) % 1024 * b
  remainder = product % c
  quotient = quotient * 1024 + (product - remainder) / c
  product = remainder * 1024 + a % 1024 * b
  remainder = product % c
  return quotient * 1024 + (product - remainder) / c, remainder
end

local function load_fixed_window()
-- FixedWindow allows a charge if the units of the current window plus the cost stay within the limit. Windows are aligned
-- to the epoch. The value is that of counts.lua; previous is always 0.

local function fixed_window_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local start = now - now % window
  local index, count, at, keep_ttl = start / window, 0, now, false
  if value then
    local stored_index, stored_count = decode_counts(value, now, window)
    if not stored_index then return nil, stored_count end
    if stored_index >= index then
      count, keep_ttl = stored_count, true
      if stored_index > index then -- the clock stepped back
        index, start = stored_index, stored_index * window
        at = start
      end
    end
  end
  local finish, reset_after, remaining = start + window, 0, 0
  if count > 0 then reset_after = finish - now end
  if count < units then remaining = units - count end
  local needed, wait = charge.needed, 0
  if count + needed > units then
    wait = now - finish
    if needed > units then wait = (-9007199254740991) elseif at > now then return nil, true end
    if not charge.debt then return wait, remaining, reset_after, at end
  end
  count = count + cost
  if count > 1000000000 then count = 1000000000 end
  return wait, remaining, reset_after, at, encode_counts(index, count, 0), finish, keep_ttl
end
return fixed_window_step
end

local function load_sliding_window_counter()
-- SlidingWindowCounter allows a charge if current + previous * (window - elapsed) / window + cost <= limit, where elapsed
-- is the time since the current window began. Windows are aligned to the epoch. All terms except the weighted previous
-- count are integers, so the comparison uses its ceiling. The value is that of counts.lua.

-- counter_read returns index, current and previous at now, and whether the value stores the same; nil if the value is
-- corrupt, nil and true if it is too far ahead.
local function counter_read(value, now, window)
  local index = (now - now % window) / window
  if not value then return index, 0, 0, false end
  local stored_index, current, previous = decode_counts(value, now, window)
  if not stored_index then return nil, current end
  if stored_index >= index then return stored_index, current, previous, true end -- later if the clock stepped back
  if stored_index == index - 1 then return index, 0, current, false end
  return index, 0, 0, false
end

-- counter_elapsed_until returns the elapsed time from which the weighted previous count is at most target. target is
-- less than previous.
local function counter_elapsed_until(previous, target, window)
  return window - (mul_div(target, window, previous))
end

-- counter_wait returns the negative wait until at most target units are used. More are used now.
local function counter_wait(now, start, window, current, previous, target)
  if current <= target then
    return now - start - counter_elapsed_until(previous, target - current, window)
  end
  return now - start - window - counter_elapsed_until(current, target, window)
end

local function sliding_window_counter_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local index, current, previous, is_stored = counter_read(value, now, window)
  if not index then return nil, current end
  local start = index * window
  local at, used, reset_after, remaining = now, current, 0, 0
  if start > now then at = start end
  if previous > 0 then
    local quotient, remainder = mul_div(previous, window - (at - start), window)
    used = used + quotient
    if remainder > 0 then used = used + 1 end
    reset_after = start + window - now
  end
  if current > 0 then reset_after = start + 2 * window - now end
  if used < units then remaining = units - used end
  local needed, counted, wait = charge.needed, current + cost, 0
  if counted > 1000000000 then counted = 1000000000 end
  if used + needed > units then
    wait = (-9007199254740991)
    if needed <= units then
      wait = counter_wait(now, start, window, charge.debt and counted or current, previous, units - needed)
      if wait < -2 * window then return nil, true end
    end
    if not charge.debt then return wait, remaining, reset_after, at end
  end
  return wait, remaining, reset_after, at,
    encode_counts(index, counted, previous), start + 2 * window, is_stored and current > 0
end
return sliding_window_counter_step
end

local function load_sliding_window_log()
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
return sliding_window_log_step
end

local function load_bucket()
-- TokenBucket and LeakyBucket share a meter. The cost of an allowed charge raises its level, which drains at the rate of
-- the limit: units per window. A charge is allowed if the level plus its cost stay within the capacity.
--   TokenBucket: the level is the number of missing tokens, the capacity is the burst.
--   LeakyBucket: the level is the number of units in the queue, the capacity is the burst and the unit that is leaving. An
--     allowed charge waits until the level before it has drained. With max_delay (us), a charge that would wait longer is
--     denied.
-- The value has four numbers: at, whole, part and empty_at. At the instant at (us), the level was whole + part / window
-- units. It is 0 at empty_at (us). Lowering the limit later does not delay that.

-- bucket_drain returns at and the level (whole, part), advanced from at to now. A level above the capacity is lowered to
-- the capacity: after the burst was lowered, the bucket blocks no longer than the new burst implies, and the wait that it
-- returns decreases with time.
local function bucket_drain(at, whole, part, now, charge)
  local elapsed, units, window = now - at, charge.units, charge.window
  if elapsed < 0 then elapsed = 0 end -- the clock may have stepped back
  if whole >= charge.capacity then whole, part = charge.capacity, 0 end
  local rest = elapsed % window
  local drained, drained_part = mul_div(units, rest, window)
  whole, part = whole - (elapsed - rest) / window * units - drained, part - drained_part
  if part < 0 then whole, part = whole - 1, part + window end
  if whole < 0 then whole, part = 0, 0 end
  return at + elapsed, whole, part
end

-- bucket_read returns at, whole, part and empty_at, advanced to now; nil if the value is corrupt, nil and true if it is too
-- far ahead.
local function bucket_read(value, now, charge)
  if not value then return now, 0, 0, 0 end
  if #value ~= 4 * 7 then return nil end
  local at, whole, part, empty_at = unpack_numbers('>I7I7I7I7', value)
  if now >= empty_at then return now, 0, 0, empty_at end
  if part >= charge.window then return nil end
  if at > now + charge.window then return nil, true end
  at, whole, part = bucket_drain(at, whole, part, now, charge)
  return at, whole, part, empty_at
end

-- bucket_drain_time returns the time in which whole + part / window units drain.
local function bucket_drain_time(whole, part, charge)
  local quotient, remainder = mul_div(whole, charge.window, charge.units)
  local rest = remainder + part
  local below_one = rest % charge.units
  if below_one > 0 then rest = rest - below_one + charge.units end -- rounds up
  return quotient + rest / charge.units
end

local function bucket_step(value, now, charge)
  local cost, capacity = charge.cost, charge.capacity
  local max_level = capacity - cost -- the highest level at which the charge is allowed
  local at, whole, part, empty_at = bucket_read(value, now, charge)
  if not at then return nil, whole end
  local used, reset_after, wait = whole, 0, 0
  if part > 0 then used = whole + 1 end
  if used > 0 then
    reset_after = at + bucket_drain_time(whole, part, charge)
    if reset_after > empty_at then reset_after = empty_at end
    reset_after = reset_after - now
  end
  local late = 0 -- by how much the charge would wait too long
  if charge.max_delay and cost > 0 then late = reset_after - charge.max_delay end
  if used <= max_level and late <= 0 then
    if charge.queues and cost > 0 then
      wait = reset_after
      if at > now and wait > bucket_drain_time(capacity, 0, charge) then return nil, true end
    end
    local expires_at = at + bucket_drain_time(whole + cost, part, charge)
    return wait, capacity - used, reset_after, at, pack('>I7I7I7I7', at, whole + cost, part, expires_at), expires_at
  end
  wait = (-9007199254740991)
  if used <= max_level then
    wait = -late
  elseif max_level >= 0 then
    wait = min(now - min(at + bucket_drain_time(whole - max_level, part, charge), empty_at), -late)
  end
  if at > now and wait ~= (-9007199254740991) and -wait > bucket_drain_time(capacity, 0, charge) then return nil, true end
  return wait, capacity - used, reset_after, at
end
return bucket_step
end

local function load_compact_fixed_window()
-- Compact counters share blocks: hashes that Redis keeps in one piece of memory while they are small. A field of a block is a
-- counter, in the form of counts.lua with the index of its window modulo INDEXES. A block expires whole: the field '' has the
-- index of the last window of a counter in it, which sets its time to live. The blocks of a FixedWindow have one key. Those of a
-- SlidingWindowCounter have two, for even and for odd windows: a counter moves to the block of the next window when it counts
-- there.
--
-- The functions below give the steps of these algorithms the value of a counter, and write the next one.
local decode_units, encode_units, try = decode_counts, encode_counts, redis.pcall
-- INDEXES is small, so that a small counter takes three bytes. It is far above the number of windows of which counters exist.

-- The counter that read_counter has read: its window, its units in that window and in the one before, and the key of its block,
-- nil if it does not exist.
local stored_index, stored_current, stored_previous, stored_key
-- own_key is the key of the block for the window now, other_key that for the windows before and after it.
local now_index, own_key, other_key, compact_field, compact_window, compact_now

-- read_field reads the counter in a block if it has counted in a later window than the one that was read. It returns whether the
-- value is corrupt, and whether the counter is too far ahead: then it has no units. The block of a window that is long past would
-- have expired, so such an index is one that INDEXES wraps.
local function read_field(key, now)
  local value = try('HGET', key, compact_field)
  if not value then return false end
  if type(value) == 'table' then
    if string.find(value.err, 'WRONGTYPE', 1, true) then return true end
    call('HGET', key, compact_field) -- raises the error
  end
  local remainder, current, previous = decode_units(value, now, 0)
  if not remainder or remainder >= 32 then return true end
  local index = now_index + (remainder - now_index + 32 / 2) % 32 - 32 / 2 -- later if the clock stepped back
  local is_ahead = index > now_index + 1 or index < now_index - 2
  if is_ahead then index, current, previous = -1, 0, 0 end
  if index > stored_index or not stored_key then
    stored_index, stored_current, stored_previous, stored_key = index, current, previous, key
  end
  return false, is_ahead
end

-- read_counter reads a counter. Unless starts_over, it returns false if a value is corrupt, and false and true if it is too far
-- ahead.
local function read_counter(now, window, starts_over, key, field, odd_key)
  now_index, own_key, other_key = floor(now / window), key, odd_key
  compact_field, compact_window, compact_now = field, window, now
  if odd_key and now_index % 2 == 1 then own_key, other_key = odd_key, key end
  local value = try('HGET', own_key, field)
  if value and type(value) == 'string' then -- mostly, a counter has counted in the window now
    local remainder, current, previous = decode_units(value, now, 0)
    if remainder == now_index % 32 then
      stored_index, stored_current, stored_previous, stored_key = now_index, current, previous, own_key
      return true
    end
  end
  stored_index, stored_current, stored_previous, stored_key = -1, 0, 0, nil
  local is_corrupt, is_ahead = read_field(own_key, now)
  if other_key and stored_index < now_index then
    local other_is_corrupt, other_is_ahead = read_field(other_key, now)
    is_corrupt, is_ahead = is_corrupt or other_is_corrupt, is_ahead or other_is_ahead
  end
  if starts_over then
    if stored_index > now_index then stored_index, stored_current, stored_previous = -1, 0, 0 end
    return true
  end
  return not is_corrupt and not is_ahead, not is_corrupt
end

-- decode_counts returns the counter that was read.
local function decode_counts() return stored_index, stored_current, stored_previous end

-- write_field writes a counter to a block in which it is not. The block expires with its last window.
local function write_field(key, index, field, value, now, window, windows)
  local last = try('HGET', key, '')
  if last then
    last = type(last) == 'string' and tonumber(last)
    if last and last >= index and last * window <= now + window then return call('HSET', key, field, value) end
    if not last then call('UNLINK', key) end -- no script wrote it
  end
  call('HSET', key, '', format_integer(index), field, value)
  call('PEXPIREAT', key, to_milliseconds((index + windows) * window) - 1) -- a key expires after this millisecond
end

-- encode_counts returns the next units of the counter that was read, in the form in which write_value sets the field of its block,
-- or a function that writes them to the block of another window.
local function encode_counts(index, current, previous)
  local value = encode_units(index % 32, current, previous)
  if stored_index == index then return value end
  local key, old_key, field, now, window = own_key, stored_key, compact_field, compact_now, compact_window
  local windows = other_key and 2 or 1
  return function()
    write_field(key, index, field, value, now, window, windows)
    if old_key and old_key ~= key then call('HDEL', old_key, field) end
  end
end

-- delete_counter returns a function that deletes the counter that was read.
local function delete_counter()
  local key, field = stored_key, compact_field
  return function() if key then call('HDEL', key, field) end end
end

-- FixedWindow allows a charge if the units of the current window plus the cost stay within the limit. Windows are aligned
-- to the epoch. The value is that of counts.lua; previous is always 0.

local function fixed_window_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local start = now - now % window
  local index, count, at, keep_ttl = start / window, 0, now, false
  if value then
    local stored_index, stored_count = decode_counts(value, now, window)
    if not stored_index then return nil, stored_count end
    if stored_index >= index then
      count, keep_ttl = stored_count, true
      if stored_index > index then -- the clock stepped back
        index, start = stored_index, stored_index * window
        at = start
      end
    end
  end
  local finish, reset_after, remaining = start + window, 0, 0
  if count > 0 then reset_after = finish - now end
  if count < units then remaining = units - count end
  local needed, wait = charge.needed, 0
  if count + needed > units then
    wait = now - finish
    if needed > units then wait = (-9007199254740991) elseif at > now then return nil, true end
    if not charge.debt then return wait, remaining, reset_after, at end
  end
  count = count + cost
  if count > 1000000000 then count = 1000000000 end
  return wait, remaining, reset_after, at, encode_counts(index, count, 0), finish, keep_ttl
end

local counted_step = fixed_window_step

local function compact_step(value, now, charge, key, field, odd_key)
  local is_valid, is_ahead = read_counter(now, charge.window, value == false, key, field, odd_key)
  if not is_valid then return nil, is_ahead end
  local wait, remaining, reset_after, at, next_value, expires_at = counted_step(true, now, charge)
  return wait, remaining, reset_after, at, next_value, expires_at, stored_key
end
return compact_step
end

local function load_compact_sliding_window_counter()
-- Compact counters share blocks: hashes that Redis keeps in one piece of memory while they are small. A field of a block is a
-- counter, in the form of counts.lua with the index of its window modulo INDEXES. A block expires whole: the field '' has the
-- index of the last window of a counter in it, which sets its time to live. The blocks of a FixedWindow have one key. Those of a
-- SlidingWindowCounter have two, for even and for odd windows: a counter moves to the block of the next window when it counts
-- there.
--
-- The functions below give the steps of these algorithms the value of a counter, and write the next one.
local decode_units, encode_units, try = decode_counts, encode_counts, redis.pcall
-- INDEXES is small, so that a small counter takes three bytes. It is far above the number of windows of which counters exist.

-- The counter that read_counter has read: its window, its units in that window and in the one before, and the key of its block,
-- nil if it does not exist.
local stored_index, stored_current, stored_previous, stored_key
-- own_key is the key of the block for the window now, other_key that for the windows before and after it.
local now_index, own_key, other_key, compact_field, compact_window, compact_now

-- read_field reads the counter in a block if it has counted in a later window than the one that was read. It returns whether the
-- value is corrupt, and whether the counter is too far ahead: then it has no units. The block of a window that is long past would
-- have expired, so such an index is one that INDEXES wraps.
local function read_field(key, now)
  local value = try('HGET', key, compact_field)
  if not value then return false end
  if type(value) == 'table' then
    if string.find(value.err, 'WRONGTYPE', 1, true) then return true end
    call('HGET', key, compact_field) -- raises the error
  end
  local remainder, current, previous = decode_units(value, now, 0)
  if not remainder or remainder >= 32 then return true end
  local index = now_index + (remainder - now_index + 32 / 2) % 32 - 32 / 2 -- later if the clock stepped back
  local is_ahead = index > now_index + 1 or index < now_index - 2
  if is_ahead then index, current, previous = -1, 0, 0 end
  if index > stored_index or not stored_key then
    stored_index, stored_current, stored_previous, stored_key = index, current, previous, key
  end
  return false, is_ahead
end

-- read_counter reads a counter. Unless starts_over, it returns false if a value is corrupt, and false and true if it is too far
-- ahead.
local function read_counter(now, window, starts_over, key, field, odd_key)
  now_index, own_key, other_key = floor(now / window), key, odd_key
  compact_field, compact_window, compact_now = field, window, now
  if odd_key and now_index % 2 == 1 then own_key, other_key = odd_key, key end
  local value = try('HGET', own_key, field)
  if value and type(value) == 'string' then -- mostly, a counter has counted in the window now
    local remainder, current, previous = decode_units(value, now, 0)
    if remainder == now_index % 32 then
      stored_index, stored_current, stored_previous, stored_key = now_index, current, previous, own_key
      return true
    end
  end
  stored_index, stored_current, stored_previous, stored_key = -1, 0, 0, nil
  local is_corrupt, is_ahead = read_field(own_key, now)
  if other_key and stored_index < now_index then
    local other_is_corrupt, other_is_ahead = read_field(other_key, now)
    is_corrupt, is_ahead = is_corrupt or other_is_corrupt, is_ahead or other_is_ahead
  end
  if starts_over then
    if stored_index > now_index then stored_index, stored_current, stored_previous = -1, 0, 0 end
    return true
  end
  return not is_corrupt and not is_ahead, not is_corrupt
end

-- decode_counts returns the counter that was read.
local function decode_counts() return stored_index, stored_current, stored_previous end

-- write_field writes a counter to a block in which it is not. The block expires with its last window.
local function write_field(key, index, field, value, now, window, windows)
  local last = try('HGET', key, '')
  if last then
    last = type(last) == 'string' and tonumber(last)
    if last and last >= index and last * window <= now + window then return call('HSET', key, field, value) end
    if not last then call('UNLINK', key) end -- no script wrote it
  end
  call('HSET', key, '', format_integer(index), field, value)
  call('PEXPIREAT', key, to_milliseconds((index + windows) * window) - 1) -- a key expires after this millisecond
end

-- encode_counts returns the next units of the counter that was read, in the form in which write_value sets the field of its block,
-- or a function that writes them to the block of another window.
local function encode_counts(index, current, previous)
  local value = encode_units(index % 32, current, previous)
  if stored_index == index then return value end
  local key, old_key, field, now, window = own_key, stored_key, compact_field, compact_now, compact_window
  local windows = other_key and 2 or 1
  return function()
    write_field(key, index, field, value, now, window, windows)
    if old_key and old_key ~= key then call('HDEL', old_key, field) end
  end
end

-- delete_counter returns a function that deletes the counter that was read.
local function delete_counter()
  local key, field = stored_key, compact_field
  return function() if key then call('HDEL', key, field) end end
end

-- SlidingWindowCounter allows a charge if current + previous * (window - elapsed) / window + cost <= limit, where elapsed
-- is the time since the current window began. Windows are aligned to the epoch. All terms except the weighted previous
-- count are integers, so the comparison uses its ceiling. The value is that of counts.lua.

-- counter_read returns index, current and previous at now, and whether the value stores the same; nil if the value is
-- corrupt, nil and true if it is too far ahead.
local function counter_read(value, now, window)
  local index = (now - now % window) / window
  if not value then return index, 0, 0, false end
  local stored_index, current, previous = decode_counts(value, now, window)
  if not stored_index then return nil, current end
  if stored_index >= index then return stored_index, current, previous, true end -- later if the clock stepped back
  if stored_index == index - 1 then return index, 0, current, false end
  return index, 0, 0, false
end

-- counter_elapsed_until returns the elapsed time from which the weighted previous count is at most target. target is
-- less than previous.
local function counter_elapsed_until(previous, target, window)
  return window - (mul_div(target, window, previous))
end

-- counter_wait returns the negative wait until at most target units are used. More are used now.
local function counter_wait(now, start, window, current, previous, target)
  if current <= target then
    return now - start - counter_elapsed_until(previous, target - current, window)
  end
  return now - start - window - counter_elapsed_until(current, target, window)
end

local function sliding_window_counter_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local index, current, previous, is_stored = counter_read(value, now, window)
  if not index then return nil, current end
  local start = index * window
  local at, used, reset_after, remaining = now, current, 0, 0
  if start > now then at = start end
  if previous > 0 then
    local quotient, remainder = mul_div(previous, window - (at - start), window)
    used = used + quotient
    if remainder > 0 then used = used + 1 end
    reset_after = start + window - now
  end
  if current > 0 then reset_after = start + 2 * window - now end
  if used < units then remaining = units - used end
  local needed, counted, wait = charge.needed, current + cost, 0
  if counted > 1000000000 then counted = 1000000000 end
  if used + needed > units then
    wait = (-9007199254740991)
    if needed <= units then
      wait = counter_wait(now, start, window, charge.debt and counted or current, previous, units - needed)
      if wait < -2 * window then return nil, true end
    end
    if not charge.debt then return wait, remaining, reset_after, at end
  end
  return wait, remaining, reset_after, at,
    encode_counts(index, counted, previous), start + 2 * window, is_stored and current > 0
end

local counted_step = sliding_window_counter_step

local function compact_step(value, now, charge, key, field, odd_key)
  local is_valid, is_ahead = read_counter(now, charge.window, value == false, key, field, odd_key)
  if not is_valid then return nil, is_ahead end
  local wait, remaining, reset_after, at, next_value, expires_at = counted_step(true, now, charge)
  return wait, remaining, reset_after, at, next_value, expires_at, stored_key
end
return compact_step
end

-- load_algorithm returns the function of an algorithm: step in the spend script, refund in the refund script.
--   step(value, now, charge, key, field, odd_key) returns; field and odd_key are those of a compact counter
--     wait         0 or the delay (us) if the charge is allowed; else the negative retry after (us), or NEVER
--                  of a debt: after it is counted, also on peek
--     remaining    units before the charge
--     reset_after  us, before the charge
--     at           the counter's own time (us): later than now if the clock stepped back
--     and if the charge is allowed, or charge.debt:
--     next_value   the value that includes the cost, or a function that writes it
--     expires_at   when the whole limit is available again (us); the key expires then
--     keep_ttl     true if the key already expires at that time; of a compact counter the key of its block;
--                  IN_PLACE if next_value is a function
--     It changes nothing. It returns nil if the value is corrupt: no script wrote it. It returns nil and true if the value
--     is too far ahead: its time is more than one window after now, or the charge would wait longer than the limit can make
--     it wait. Then the caller calls it again with the value false, so that the counter starts over.
--   refund(value, now, charge, key, spent_at, field, odd_key) returns
--     false if there is nothing to write; else the value without the units spent at that instant that still count, nil if
--     the whole limit is available, and expires_at as above; or a function that writes it. It returns false and true if the
--     value is corrupt. A value that is too far ahead has nothing to refund.
-- value is false if the key does not exist, and nil if the function reads it: of a log with a limit above MAX_WHOLE_LOG, and of a compact
-- counter. Of a ring, value can be the first bytes.
local function load_algorithm(name)
  if name == 'FixedWindow' then return load_fixed_window() end
  if name == 'CompactFixedWindow' then return load_compact_fixed_window() end
  if name == 'SlidingWindowCounter' then return load_sliding_window_counter() end
  if name == 'CompactSlidingWindowCounter' then return load_compact_sliding_window_counter() end
  if name == 'SlidingWindowLog' then return load_sliding_window_log() end
  if name == 'TokenBucket' then return load_bucket() end
  if name == 'LeakyBucket' then return load_bucket() end
  error('unknown algorithm ' .. name)
end

-- How the scripts read ARGV and KEYS, and write counters.

-- current_time returns now in microseconds since the epoch: the argument, or the time of this server if it is ''.
local function current_time(argument)
  if argument ~= '' then return tonumber(argument) end
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

-- read_whole is false if a log of this run has a limit above MAX_WHOLE_LOG. Then all of its logs read their values themselves. has_log is true
-- if the run has a log.
local read_whole, has_log = true, false

-- loaded caches load_algorithm, because most charges of a run have the same algorithm.
local loaded = {}

-- has_compact is true if a counter of this run is compact, see compact.lua.
local has_compact = false

-- next_key and next_field are the positions of the next key in KEYS, and of the next field of a compact counter in ARGV[3].
local next_key, next_field = 1, 1

-- read_charge reads five arguments from ARGV[at] on: algorithm, limit (units), window (us), capacity (only for buckets, see
-- read_capacity), cost (units, see read_cost). The name of the algorithm of a compact counter begins with 'Compact'. apply is
-- the function of the algorithm, see load_algorithm.
local function read_charge(at)
  local name = ARGV[at]
  local capacity, max_delay = read_capacity(tonumber(ARGV[at + 3]))
  local cost, needed, debt = read_cost(tonumber(ARGV[at + 4]))
  local charge = {
    apply = loaded[name], units = tonumber(ARGV[at + 1]), window = tonumber(ARGV[at + 2]),
    capacity = capacity, max_delay = max_delay, cost = cost, needed = needed, debt = debt,
    queues = name == 'LeakyBucket', is_log = name == 'SlidingWindowLog', enforced = true,
  }
  if not charge.apply then
    charge.apply = load_algorithm(name)
    loaded[name] = charge.apply
  end
  if name == 'CompactFixedWindow' or name == 'CompactSlidingWindowCounter' then
    charge.is_compact, has_compact = true, true
    charge.has_odd_key = name == 'CompactSlidingWindowCounter'
  end
  if charge.is_log then
    has_log = true
    if charge.units > 256 then read_whole = false end
  end
  return charge
end

-- read_key returns the index in KEYS of the next charge, and for a compact counter its field and its second key.
local function read_key(charge)
  local index = next_key
  next_key = index + 1
  if not charge.is_compact then return index end
  local field = string.sub(ARGV[3], next_field, next_field + 6 - 1)
  next_field = next_field + 6
  if not charge.has_odd_key then return index, field end
  next_key = index + 2
  return index, field, KEYS[index + 1]
end

-- values are the values that were read, by index in KEYS; written are those that were written, by key. written is nil if no key is read
-- after it was written: a new element of a table takes as long as 20 operations.
local values, written = prefetched or {}, nil

-- prefetch_values reads the values of all keys, unless a log reads its value itself or a counter is compact. It returns
-- whether all values are read. Call it after read_charge for all charges. One MGET reads them, unless a log can be a ring, because its limit was
-- larger: MGET would return all of it. MGET returns nothing for a key that is not a string, so the next write replaces it.
local function prefetch_values()
  if has_compact or not read_whole then return false end
  if prefetched then return true end
  if has_log then
    local pcall = redis.pcall
    for i = 1, #KEYS do
      local value = pcall('GETRANGE', KEYS[i], '0', '1793') -- as read_value
      if #value == 0 then value = value ~= '' and read_value(KEYS[i]) end -- absent, or an error
      values[i] = value
    end
    return true
  end
  values = call('MGET', unpack(KEYS, 1, min(#KEYS, 1000))) -- unpack has a limit
  for from = 1001, #KEYS, 1000 do
    local read = call('MGET', unpack(KEYS, from, min(from + 999, #KEYS)))
    for i = 1, #read do values[from + i - 1] = read[i] end
  end
  return true
end

-- value_of returns the value of KEYS[index], false if it does not exist, nil if its function reads it.
local function value_of(index, charge)
  if charge.is_compact or charge.is_log and not read_whole then return nil end
  local value = written and written[KEYS[index]]
  if value == nil then value = values[index] end
  if value == nil or value == 0 then value = read_value(KEYS[index]) end
  return value
end

-- The time of the last call of set, in microseconds and in milliseconds. Mostly, many counters expire at the same time.
local last_expiry, last_milliseconds

-- set writes a value. The key expires at expires_at (us); if keep_ttl, it already does.
local function set(key, value, expires_at, keep_ttl)
  if keep_ttl then
    call('SET', key, value, 'KEEPTTL')
  else
    if expires_at ~= last_expiry then last_expiry, last_milliseconds = expires_at, to_milliseconds(expires_at) end
    call('SET', key, value, 'PXAT', last_milliseconds)
  end
  if written then written[key] = value end
end

-- write_value writes a value as set does, or deletes the key if the value is nil. A compact counter is the field of the block
-- keep_ttl. A function writes the value itself.
local function write_value(key, value, expires_at, keep_ttl, field)
  if type(value) == 'function' then
    if written then written[key] = 0 end
    return value()
  end
  if field then return call('HSET', keep_ttl, field, value) end
  if value then return set(key, value, expires_at, keep_ttl) end
  call('DEL', key)
end

local now = current_time(ARGV[1])
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

-- spend decides requests in sequence at one instant: it counts either all charges of a request or nothing.
--   KEYS      the counters of the charges of the first request, then of the second, …; distinct within a request. A compact
--             counter has the key of its block, or for a SlidingWindowCounter the keys of both
--   ARGV[1]   now in microseconds since the epoch, or '' to read the clock of this server
--   ARGV[2]   one character per request, the number of its shape: '0' for the first, and so on in ASCII order
--   ARGV[3]   the fields of the compact counters in their blocks, in the order of KEYS
--   ARGV[4]   'repeated' if requests have a counter in common, else ''
--   ARGV[5]…  the shapes. A shape is the arguments that requests with different keys share:
--     mode    'spend', or 'peek' to change nothing
--     count   number of charges
--     then for each charge: algorithm, limit (units), window (us), capacity (only for buckets,
--             see read_capacity), cost (units, see read_cost), 'enforce' or 'shadow'
-- Reply, integers: now (us since the epoch), and for each charge
--     4 * remaining (units) + 1 if it has a wait + 2 if it is ahead
--     reset after (us)
--     wait    absent if it is 0. The delay (us) of an allowed charge; the negative retry after (us) of a denied one, or NEVER
--     ahead   absent if it is 0. How far the counter's own time is ahead of now (us), because the clock stepped back
--   then for each charge on a counter that starts over, the index i of the charge in the call, from 0, if its value is corrupt,
--   or -1 - i if it is too far ahead, see load.lua
-- If all enforced charges of a request are allowed, they are counted, and so are its shadow charges that are allowed. A
-- debt is always counted.
-- Must never happen: a write for a request with a denied enforced charge, except of debts; a write on peek; a key without a
-- time to live.

if ARGV[4] == 'repeated' then written = {} end
local shapes, at, number = {}, 5, 48
while at <= #ARGV do
  local shape, count = {spends = ARGV[at] == 'spend'}, tonumber(ARGV[at + 1])
  at = at + 2
  for i = 1, count do
    shape[i] = read_charge(at)
    if ARGV[at + 5] == 'shadow' then shape[i].enforced = false end
    if shape[i].debt then shape.has_debt = true end
    at = at + 6
  end
  shapes[number] = shape
  number = number + 1
end

local are_read, index, corrupt = prefetch_values(), 0, {}

-- decide_absent returns what the function of the algorithm returns for a counter that does not exist: the same for all of them.
local function decide_absent(charge)
  local decision = charge.absent
  if not decision then
    decision = {charge.apply(false, now, charge)}
    charge.absent = decision
  end
  return unpack(decision, 1, 7)
end

-- The charges of a request with several of them: where their decisions are in the reply, and what is written if they are counted.
local keys, fields, firsts, next_values, expiries, keep_ttls = {}, {}, {}, {}, {}, {}

-- The loop has no functions of its own: they would take as long again, because locals of a script are slow in functions.
local shape_numbers = {byte(ARGV[2], 1, -1)}
for request = 1, #shape_numbers do
  local shape = shapes[shape_numbers[request]]
  local spends = shape.spends
  if are_read and #shape == 1 then -- as almost always: the same as below, without tables
    local charge, key, value = shape[1], KEYS[next_key], values[next_key]
    local last = written and written[key]
    if last ~= nil then value = last end
    if value == 0 then value = read_value(key) end
    index, next_key = index + 1, next_key + 1
    local wait, remaining, reset_after, at, next_value, expires_at, keep_ttl
    if value then
      wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = charge.apply(value, now, charge, key)
      if not wait then corrupt[#corrupt + 1] = remaining and -index or index - 1 end
    end
    if not wait then
      wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = decide_absent(charge)
    end
    if next_value and spends and charge.cost > 0 then
      if keep_ttl == 0 then
        write_value(key, next_value)
      else
        set(key, next_value, expires_at, keep_ttl)
      end
      remaining, reset_after = remaining - charge.cost, expires_at - now
      if remaining < 0 then remaining = 0 end
    end
    if wait == 0 and at == now then -- as add_decision
      reply[size + 1], reply[size + 2] = 4 * remaining, reset_after
      size = size + 2
    else
      add_decision(remaining, reset_after, wait, at)
    end
  else
    local counts = spends
    for i = 1, #shape do
      local charge, at_key, key, value, field, odd_key = shape[i], next_key, nil, nil, nil, nil
      index = index + 1
      if are_read then
        next_key = next_key + 1
        key = KEYS[at_key]
        value = written and written[key]
        if value == nil then value = values[at_key] end
        if value == 0 then value = read_value(key) end
      else
        at_key, field, odd_key = read_key(charge)
        key, value = KEYS[at_key], value_of(at_key, charge)
      end
      local wait, remaining, reset_after, at, next_value, expires_at, keep_ttl
      if value or not are_read then
        wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = charge.apply(value, now, charge, key, field, odd_key)
        if not wait then corrupt[#corrupt + 1] = remaining and -index or index - 1 end
      end
      if not wait and are_read then
        wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = decide_absent(charge)
      elseif not wait then
        wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = charge.apply(false, now, charge, key, field, odd_key)
      end
      keys[i], fields[i], firsts[i] = key, field, size + 1
      next_values[i], expiries[i], keep_ttls[i] = next_value, expires_at, keep_ttl
      if wait == 0 and at == now then -- as add_decision
        reply[size + 1], reply[size + 2] = 4 * remaining, reset_after
        size = size + 2
      else
        add_decision(remaining, reset_after, wait, at)
        if wait < 0 and charge.enforced then counts = false end
      end
    end
    if counts or spends and shape.has_debt then
      for i = 1, #shape do
        local charge, next_value = shape[i], next_values[i]
        local cost = charge.cost
        if next_value and cost > 0 and (counts or charge.debt) then
          local expires_at, first = expiries[i], firsts[i]
          if are_read and keep_ttls[i] ~= 0 then
            set(keys[i], next_value, expires_at, keep_ttls[i])
          else
            write_value(keys[i], next_value, expires_at, keep_ttls[i], fields[i])
          end
          local head = reply[first] - 4 * cost
          if head < 0 then head = head % 4 end -- nothing remains
          reply[first], reply[first + 1] = head, expires_at - now
        end
      end
    end
  end
end
for i = 1, #corrupt do reply[size + i] = corrupt[i] end
return reply
