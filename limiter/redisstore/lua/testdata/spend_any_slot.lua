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

-- any_slot runs a script on keys that can be in any slots of this node of a Redis Cluster. The keys of EVALSHA must be in one slot, but a
-- script may access all keys of its node. So the keys are arguments.
--   ARGV[1]   number of keys
--   ARGV[2]…  the keys, then the arguments of the script
-- Reply: that of the script, or an empty list if this node does not have all keys. Then the script did not run.
local arguments, KEYS, ARGV = ARGV, {}, {}
local values, key_count = {}, tonumber(arguments[1])
for i = 1, key_count do
  local key = arguments[1 + i]
  local value = redis.pcall('GETRANGE', key, '0', '1793')
  if type(value) == 'table' then
    if not string.find(value.err, 'WRONGTYPE', 1, true) then return {} end
    value = WRONG_TYPE
  elseif value == '' then
    value = false
  end
  KEYS[i], values[i] = key, value
end
for i = key_count + 2, #arguments do ARGV[#ARGV + 1] = arguments[i] end

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

-- The value of a counted window has three numbers: the index of the current window since the epoch, the units of that
-- window, and the units of the previous one. Small numbers are stored as one integer, which Redis keeps in 16 bytes: the
-- three numbers in radix 256, 4096 or 65536, and in the lowest two bits which radix it is. Larger ones are packed.

-- With several keys, most counters have the same window and small counts. Their texts are cached under the negative number, because
-- some Lua versions allocate an array up to a positive index.
local count_cache = KEYS[2] and {}

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

-- decode_counts returns index, current and previous; or nil and the problem of the value, see charge.lua. Values that no script wrote can have
-- any bytes. A value can be ahead because the clock stepped back. If it is more than one window ahead, the clock was wrong when it was written.
local function decode_counts(value, now, window)
  local index, current, previous
  if #value == 21 then
    index, current, previous = unpack_numbers('>I7I7I7', value)
    if current > MAX_UNITS or previous > MAX_UNITS then return nil, 'corrupt' end
  else
    local number = tonumber(value)
    if not number or number < 0 or number >= 9007199254740992 then return nil, 'corrupt' end
    local radix_id, radix = number % 4, 256
    if radix_id == 1 then radix = 4096 elseif radix_id == 2 then radix = 65536 elseif radix_id ~= 0 then return nil, 'corrupt' end
    number = (number - radix_id) / 4
    previous = number % radix
    number = (number - previous) / radix
    current = number % radix
    index = (number - current) / radix
  end
  if index * window > now + window then return nil, 'ahead' end
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
  local window, units = charge.window, charge.units
  local start = now - now % window
  local index, count, at, keep_ttl = start / window, 0, now, false
  if value then
    local stored_index, stored_count = decode_counts(value, now, window)
    if not stored_index then return nil, stored_count end -- the problem
    if stored_index >= index then -- else the window has ended, and nothing counts
      count, keep_ttl = stored_count, true
      if stored_index > index then -- the clock stepped back: the counter stays in its window
        index, start = stored_index, stored_index * window
        at = start
      end
    end
  end
  local finish, needed = start + window, charge.needed
  local wait, remaining, reset_after = 0, 0, 0
  if count < units then remaining = units - count end
  if count > 0 then reset_after = finish - now end
  if count + needed > units then
    wait = now - finish
    if needed > units then wait = NEVER elseif at > now then return nil, 'ahead' end -- longer than a window
    if not charge.is_debt then return wait, remaining, reset_after, at end
  end
  count = count + charge.cost
  if count > MAX_UNITS then count = MAX_UNITS end -- of a debt
  return wait, remaining, reset_after, at, encode_counts(index, count, 0), finish, keep_ttl
end

return fixed_window_step
end

local function load_sliding_window_counter()

-- SlidingWindowCounter allows a charge if current + previous * (window - elapsed) / window + cost <= limit, where elapsed
-- is the time since the current window began. Windows are aligned to the epoch. All terms except the weighted previous
-- count are integers, so the comparison uses its ceiling. The value is that of counts.lua.

-- counter_read returns index, current and previous at now, and whether the value is of that window; or nil and the problem of the value.
local function counter_read(value, now, window)
  local index = (now - now % window) / window
  if not value then return index, 0, 0, false end
  local stored_index, current, previous = decode_counts(value, now, window)
  if not stored_index then return nil, current end -- the problem
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
  return now - start - window - counter_elapsed_until(current, target, window) -- in the next window, current is the previous count
end

local function sliding_window_counter_step(value, now, charge)
  local window, units = charge.window, charge.units
  local index, current, previous, is_stored = counter_read(value, now, window)
  if not index then return nil, current end -- the problem
  local start = index * window
  local at, used, remaining, reset_after = now, current, 0, 0
  if start > now then at = start end
  if previous > 0 then
    local weighted, rest = mul_div(previous, window - (at - start), window)
    used = used + weighted
    if rest > 0 then used = used + 1 end
    reset_after = start + window - now
  end
  if current > 0 then reset_after = start + 2 * window - now end
  if used < units then remaining = units - used end
  local needed, counted, wait = charge.needed, current + charge.cost, 0
  if counted > MAX_UNITS then counted = MAX_UNITS end -- of a debt
  if used + needed > units then
    wait = NEVER
    if needed <= units then
      wait = counter_wait(now, start, window, charge.is_debt and counted or current, previous, units - needed)
      if wait < -2 * window then return nil, 'ahead' end
    end
    if not charge.is_debt then return wait, remaining, reset_after, at end
  end
  return wait, remaining, reset_after, at,
    encode_counts(index, counted, previous), start + 2 * window, is_stored and current > 0 -- without current units, it expired a window earlier
end

return sliding_window_counter_step
end

local function load_sliding_window_log()

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

return sliding_window_log_step
end

local function load_bucket()

-- TokenBucket and LeakyBucket share a meter. The cost of an allowed charge raises its level, which drains at the rate of
-- the limit: units per window. A charge is allowed if the level plus its cost stay within the capacity.
--   TokenBucket: the level is the number of missing tokens, the capacity is the burst.
--   LeakyBucket: the level is the number of units in the queue, the capacity is the burst and the unit that is leaving. An
--     allowed charge waits until the level before it has drained, at most for max_delay (us): a charge that would wait longer is
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

-- bucket_read returns at, whole, part and empty_at, advanced to now; or nil and the problem of the value, see charge.lua.
local function bucket_read(value, now, charge)
  if not value then return now, 0, 0, 0 end
  if #value ~= 28 then return nil, 'corrupt' end -- four numbers
  local at, whole, part, empty_at = unpack_numbers('>I7I7I7I7', value)
  if now >= empty_at then return now, 0, 0, empty_at end
  if part >= charge.window then return nil, 'corrupt' end
  if at > now + charge.window then return nil, 'ahead' end
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
  local cost, capacity, max_delay = charge.cost, charge.capacity, charge.max_delay
  local max_level = capacity - cost -- the highest level at which the charge is allowed
  local at, whole, part, empty_at = bucket_read(value, now, charge)
  if not at then return nil, whole end -- the problem
  local used, reset_after = whole, 0
  if part > 0 then used = whole + 1 end
  if used > 0 then
    reset_after = at + bucket_drain_time(whole, part, charge)
    if reset_after > empty_at then reset_after = empty_at end
    reset_after = reset_after - now
  end
  local delay, late = 0, 0 -- the wait of an allowed charge, and by how much it would be too long
  if max_delay and cost > 0 then delay, late = reset_after, reset_after - max_delay end
  if used <= max_level and late <= 0 then
    if at > now and delay > bucket_drain_time(capacity, 0, charge) then return nil, 'ahead' end
    local expires_at = at + bucket_drain_time(whole + cost, part, charge)
    return delay, capacity - used, reset_after, at, pack('>I7I7I7I7', at, whole + cost, part, expires_at), expires_at, false
  end
  local wait = NEVER
  if used <= max_level then
    wait = -late
  elseif max_level >= 0 then
    wait = min(now - min(at + bucket_drain_time(whole - max_level, part, charge), empty_at), -late)
  end
  if at > now and wait ~= NEVER and -wait > bucket_drain_time(capacity, 0, charge) then return nil, 'ahead' end
  return wait, capacity - used, reset_after, at
end

return bucket_step
end

local loaders = {
  FixedWindow = load_fixed_window,
  SlidingWindowCounter = load_sliding_window_counter,
  SlidingWindowLog = load_sliding_window_log,
  TokenBucket = load_bucket,
  LeakyBucket = load_bucket,
}

-- The algorithms are in loaders, by their names. Each is a function that defines the functions of the algorithm and returns one of them: step in the
-- scripts that spend, refund in the script that refunds. So a run does not define those that it does not use.
--   step(value, now, charge, key) decides a charge, and changes nothing. value is that of the key: text, or false if it does not exist. It
--   returns
--     wait         0 or the delay (us) if the charge is allowed; else the negative retry after (us), or NEVER
--                  of a debt: after it is counted, also on peek
--     remaining    units before the charge
--     reset_after  us, before the charge
--     at           the counter's own time (us): later than now if the clock stepped back
--     and if the charge can be counted, because it is allowed or a debt:
--     next_value   the value that includes the cost
--     expires_at   when the whole limit is available again (us); the key expires then
--     keep_ttl     whether the key already expires at that time
--     append       a function that writes in place, instead of next_value; only of a large log
--   or nil and the problem of the value, so that the caller decides again with the value false, and the counter starts over:
--     'corrupt'    no script wrote it
--     'ahead'      its time is more than one window after now, or the charge would wait longer than the limit can make it wait
--   refund(value, now, charge, key, spent_at) returns what to do about the units that spend counted at spent_at, if they still count:
--     'keep'       nothing: there is nothing to refund, or the function has changed the value in place
--     'set'        and next_value, expires_at and keep_ttl as above: write the value without them
--     'delete'     the whole limit is available
--     'corrupt', 'ahead'  nothing, because of this problem: the counter starts over when spend counts on it
local loaded = {} -- most charges of a run have the same algorithm

local function load_algorithm(name)
  local algorithm = loaded[name]
  if not algorithm then
    algorithm = loaders[name]()
    loaded[name] = algorithm
  end
  return algorithm
end

-- read_charge reads the eight arguments of a charge in a shape, from ARGV[at] on, see spend.lua.
local function read_charge(at)
  local cost, debt = tonumber(ARGV[at + 5]), ARGV[at + 6]
  local needed = cost
  if debt == 'unit' then needed = 1 end
  return {
    step = load_algorithm(ARGV[at]), units = tonumber(ARGV[at + 1]), window = tonumber(ARGV[at + 2]), capacity = tonumber(ARGV[at + 3]),
    max_delay = tonumber(ARGV[at + 4]), cost = cost, needed = needed, is_debt = debt ~= '', enforced = ARGV[at + 7] == 'enforce',
  }
end

-- read_shapes reads the shapes from ARGV[at] on, in which each charge has a number of arguments. It returns them by the bytes of ARGV[2].
local function read_shapes(at, width)
  local shapes, number = {}, 48 -- '0'
  while at <= #ARGV do
    local shape, count = {spends = ARGV[at] == 'spend', has_debt = false}, tonumber(ARGV[at + 1])
    at = at + 2
    for i = 1, count do
      local charge = read_charge(at)
      charge.storage = ARGV[at + 8] -- only in spend_compact.lua
      shape[i], shape.has_debt = charge, shape.has_debt or charge.is_debt
      at = at + width
    end
    shapes[number] = shape
    number = number + 1
  end
  return shapes
end

-- now is the time in microseconds since the epoch: ARGV[1], or that of this server if it is ''.
local now
if ARGV[1] == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = tonumber(ARGV[1])
end

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
--   KEYS      the counters of the charges of the first request, then of the second, …; distinct within a request
--   ARGV[1]   now in microseconds since the epoch, or '' to read the clock of this server
--   ARGV[2]   one character per request, the number of its shape: '0' for the first, and so on in ASCII order
--   ARGV[3]   'repeated' if requests have a counter in common, else ''
--   ARGV[4]   'logs' if a counter is a log, else ''
--   ARGV[5]…  the shapes. A shape is the arguments that requests with different keys share:
--     mode    'spend', or 'peek' to change nothing
--     count   number of charges
--     then for each charge:
--       algorithm
--       limit     units
--       window    us
--       capacity  units; only of buckets, else ''
--       max delay us; only of buckets whose charges can wait for their turn, else ''
--       cost      units
--       debt      '', or for a charge that is counted even if it is denied, which units must remain so that it is allowed: 'unit' or 'whole'
--       'enforce' or 'shadow'
-- Reply, integers: now (us since the epoch), and for each charge
--     4 * remaining (units) + 1 if it has a wait + 2 if it is ahead
--     reset after (us)
--     wait    absent if it is 0. The delay (us) of an allowed charge; the negative retry after (us) of a denied one, or NEVER
--     ahead   absent if it is 0. How far the counter's own time is ahead of now (us), because the clock stepped back
--   then for each charge on a counter that starts over, the index i of the charge in the call, from 0, if its value is corrupt,
--   or -1 - i if it is too far ahead, see charge.lua
-- If all enforced charges of a request are allowed, they are counted, and so are its shadow charges that are allowed. A
-- debt is always counted.
-- Must never happen: a write for a request with a denied enforced charge, except of debts; a write on peek; a key without a
-- time to live.
local shapes, shape_numbers = read_shapes(5, 8), {byte(ARGV[2], 1, -1)}

-- written has the values that were written, by key. It exists only if a key is read after it was written: a new element of a table takes as long
-- as 20 operations.
local written = ARGV[3] == 'repeated' and {}
local before, problems = 0, {} -- the number of charges of the requests before

-- What is known about the charges of a request with several until all of them are decided: where their decisions are in the reply, and what to
-- write.
local firsts, next_values, expiries, keep_ttls, appends, news = {}, {}, {}, {}, {}, {}

-- The time of the last SET, in microseconds and in milliseconds. Mostly, many counters expire at the same time.
local last_expiry, last_milliseconds

-- write writes what step returned. is_new is the index of the charge if its key had no value. If the key exists nevertheless, it is not a string.
local function write(key, value, expires_at, keep_ttl, append, is_new)
  if append then
    append()
    value = written and read_value(key)
  elseif keep_ttl then
    call('SET', key, value, 'KEEPTTL')
  else
    if expires_at ~= last_expiry then last_expiry, last_milliseconds = expires_at, to_milliseconds(expires_at) end
    if not is_new then
      call('SET', key, value, 'PXAT', last_milliseconds)
    elseif not call('SET', key, value, 'PXAT', last_milliseconds, 'NX') then
      problems[#problems + 1] = is_new - 1
      call('SET', key, value, 'PXAT', last_milliseconds)
    end
  end
  if written then written[key] = value end
end

-- The loop is in no function: locals of a script are slow in functions.
for request = 1, #shape_numbers do
  local shape = shapes[shape_numbers[request]]
  local count, counts = #shape, shape.spends
  for i = 1, count do
    local charge, index = shape[i], before + i
    local key, value = KEYS[index], values[index]
    if written then value = written[key] or value end
    local wait, remaining, reset_after, at, next_value, expires_at, keep_ttl, append
    if value then
      wait, remaining, reset_after, at, next_value, expires_at, keep_ttl, append = charge.step(value, now, charge, key)
      if not wait then
        local problem = remaining
        problems[#problems + 1] = problem == 'ahead' and -index or index - 1
      end
    end
    if not wait then -- the counter does not exist, or starts over: the decision is the same for all of them
      local decision = charge.absent
      if not decision then
        decision = {charge.step(false, now, charge, key)}
        charge.absent = decision
      end
      wait, remaining, reset_after, at, next_value, expires_at = unpack(decision, 1, 6)
    end
    if count > 1 then
      firsts[i], next_values[i], expiries[i], keep_ttls[i], appends[i] = size + 1, next_value, expires_at, keep_ttl, append
      news[i] = not value and index
    elseif expires_at and counts and charge.cost > 0 then -- alone, as mostly: nothing else decides whether it is counted
      write(key, next_value, expires_at, keep_ttl, append, not value and index)
      remaining, reset_after = remaining - charge.cost, expires_at - now
      if remaining < 0 then remaining = 0 end
    end
    if wait == 0 and at == now then -- as add_decision
      reply[size + 1], reply[size + 2] = 4 * remaining, reset_after
      size = size + 2
    else
      add_decision(remaining, reset_after, wait, at)
      if wait < 0 and charge.enforced then counts = false end
    end
  end
  if count > 1 and (counts or shape.spends and shape.has_debt) then
    for i = 1, count do
      local charge, expires_at = shape[i], expiries[i]
      if expires_at and charge.cost > 0 and (counts or charge.is_debt) then
        write(KEYS[before + i], next_values[i], expires_at, keep_ttls[i], appends[i], news[i])
        local first = firsts[i]
        local head = reply[first] - 4 * charge.cost
        if head < 0 then head = head % 4 end -- nothing remains
        reply[first], reply[first + 1] = head, expires_at - now
      end
    end
  end
  before = before + count
end
for i = 1, #problems do reply[size + i] = problems[i] end
return reply

