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

local function fixed_window_refund(value, now, charge, _, spent_at)
  if not value then return false end
  local index, count = decode_counts(value, now, charge.window)
  if not index then return false, not count end
  if floor(now / charge.window) > index or floor(spent_at / charge.window) ~= index then return false end
  if count <= charge.cost then return nil end
  return encode_counts(index, count - charge.cost, 0), (index + 1) * charge.window
end
return fixed_window_refund
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

local function sliding_window_counter_refund(value, now, charge, _, spent_at)
  local window = charge.window
  local index, current, previous = counter_read(value, now, window)
  if not index then return false, not current end
  local windows_ago = index - floor(spent_at / window)
  if windows_ago == 0 and current > 0 then
    current = max(0, current - charge.cost)
  elseif windows_ago == 1 and previous > 0 then
    previous = max(0, previous - charge.cost)
  else
    return false
  end
  if current == 0 and previous == 0 then return nil end
  local expires_at = (index + 1) * window
  if current > 0 then expires_at = expires_at + window end
  return encode_counts(index, current, previous), expires_at
end
return sliding_window_counter_refund
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
-- ring_parts calls visit with the offset and the length in bytes of each part of count entries from entry i on that is in one piece.
local function ring_parts(ring, i, count, visit)
  while count > 0 do
    local in_piece = count
    if i < ring.length1 then
      in_piece = ring.length1 - i
    elseif i < ring.length1 + ring.length2 then
      in_piece = ring.length1 + ring.length2 - i
    end
    in_piece = min(in_piece, count)
    visit((1 + 5 * 7) + 8 * ring_slot(ring, i), 8 * in_piece)
    i, count = i + in_piece, count - in_piece
  end
end

-- ring_move replaces count entries from entry i on by those from entry of on, with sums less removed units. It returns false if slots are missing.
local function ring_move(ring, i, of, count, removed)
  local bytes, moved, from = '', {}, 1
  ring_parts(ring, of, count, function(at, length) bytes = bytes .. call('GETRANGE', ring.key, at, at + length - 1) end)
  if #bytes < 8 * count then return false end
  for j = 1, count do
    local high, low = unpack_numbers('>I4I4', bytes, 8 * (j - 1) + 1)
    local before = low % 1048576
    moved[j] = pack('>I4I4', high, low - before + (before - removed) % 1048576)
  end
  bytes = table.concat(moved)
  ring_parts(ring, i, count, function(at, length)
    call('SETRANGE', ring.key, at, string.sub(bytes, from, from + length - 1))
    from = from + length
  end)
  return true
end

-- ring_remove_last removes the newest entry.
local function ring_remove_last(ring)
  ring.length = ring.length - 1
  if ring.length3 > 0 then
    ring.length3 = ring.length3 - 1
  elseif ring.length2 > 0 then
    ring.length2 = ring.length2 - 1
  else
    ring.length1 = ring.length1 - 1
  end
end

-- ring_refund subtracts the units from the sums of the entries after their run. If these are more than MAX_MOVED, it removes the oldest
-- units instead, which takes the same time for any number of entries: as many units remain, and some of them count longer.
local function ring_refund(value, now, charge, key, spent_at)
  local ring, is_ahead = ring_read(value, key, now, charge.window)
  if not ring then return false, not is_ahead end
  if ring.used == 0 then return false end
  local i, before = ring_search(ring, ring.expired, spent_at)
  if i == ring.length or ring_entry(ring, i) ~= spent_at then return false, ring.is_corrupt end
  local last, after = ring.length - 1, ring.total
  if i < last then
    local _
    _, after = ring_entry(ring, i + 1)
  end
  local count = (after - before) % 1048576
  local removed = min(charge.cost, count)
  if ring.is_corrupt or count > ring.used then return false, true end
  if removed == ring.used then return nil end
  if removed == 0 then return false end
  i, last = i - ring.expired, last - ring.expired
  ring_drop_expired(ring)
  if last - i > 256 then
    local oldest = ring_search(ring, 0, removed + 1, ring.base) - 1
    local time = ring_entry(ring, oldest)
    if ring.is_corrupt then return false, true end
    ring.expired = oldest
    call('SETRANGE', key, (1 + 5 * 7) + 8 * ring_slot(ring, oldest), pack_entry(time, (ring.base + removed) % 1048576))
    ring_drop_expired(ring)
  else
    local of = i + 1
    if removed < count then
      i = of
    elseif i == last then
      ring.newest = ring_entry(ring, i - 1)
    end
    if ring.is_corrupt or not ring_move(ring, i, of, last - of + 1, removed) then return false, true end
    if i < of then ring_remove_last(ring) end
    ring.total = (ring.total - removed) % 1048576
  end
  ring_write_header(ring)
  return false
end
return ring_refund
end

-- list_remove removes up to cost units that were spent at an instant from live times, as bytes.
local function list_remove(times, cost, instant)
  local list = 'L' .. times
  local length = #times / 7
  local first = list_search(list, length, instant)
  local count = max(0, min(cost, list_search(list, length, instant + 1) - first)) -- a corrupt log is not in order
  return string.sub(times, 1, 7 * first) .. string.sub(times, 7 * (first + count) + 1)
end

local function list_refund(value, now, charge, spent_at)
  local list, length, expired = list_read(value, now, charge.window)
  if not list then return false, not length end
  local times = string.sub(list, 1 + 7 * expired + 1)
  local left = list_remove(times, charge.cost, spent_at)
  if #left == #times then return false end
  if left == '' then return nil end
  local newest = unpack_numbers('>I7', left, #left - 7 + 1) -- not after the newest unit before
  return 'L' .. left, newest + charge.window
end

local function sliding_window_log_refund(value, now, charge, key, spent_at)
  if value == nil then value = read_log(key, charge.units) end
  if not is_ring(value) then return list_refund(value, now, charge, spent_at) end
  return (load_ring())(value, now, charge, key, spent_at)
end
return sliding_window_log_refund
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

-- bucket_refund refunds the units of the cost that cannot have drained since they were spent, rounded down.
local function bucket_refund(value, now, charge, _, spent_at)
  local at, whole, part, empty_at = bucket_read(value, now, charge)
  if not at then return false, not whole end
  local _, refundable = bucket_drain(spent_at, charge.cost, 0, at, charge)
  if (whole == 0 and part == 0) or refundable == 0 or spent_at > at then return false end
  whole = whole - refundable
  if whole < 0 or (whole == 0 and part == 0) then return nil end
  empty_at = min(at + bucket_drain_time(whole, part, charge), empty_at)
  return pack('>I7I7I7I7', at, whole, part, empty_at), empty_at
end
return bucket_refund
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

local function fixed_window_refund(value, now, charge, _, spent_at)
  if not value then return false end
  local index, count = decode_counts(value, now, charge.window)
  if not index then return false, not count end
  if floor(now / charge.window) > index or floor(spent_at / charge.window) ~= index then return false end
  if count <= charge.cost then return nil end
  return encode_counts(index, count - charge.cost, 0), (index + 1) * charge.window
end

local counted_refund = fixed_window_refund

local function compact_refund(_, now, charge, key, spent_at, field, odd_key)
  local is_valid, is_ahead = read_counter(now, charge.window, false, key, field, odd_key)
  if not is_valid and not is_ahead then return false, true end
  local next_value, expires_at = counted_refund(true, now, charge, key, spent_at)
  if next_value == nil then return delete_counter() end
  return next_value, expires_at, stored_key
end
return compact_refund
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

local function sliding_window_counter_refund(value, now, charge, _, spent_at)
  local window = charge.window
  local index, current, previous = counter_read(value, now, window)
  if not index then return false, not current end
  local windows_ago = index - floor(spent_at / window)
  if windows_ago == 0 and current > 0 then
    current = max(0, current - charge.cost)
  elseif windows_ago == 1 and previous > 0 then
    previous = max(0, previous - charge.cost)
  else
    return false
  end
  if current == 0 and previous == 0 then return nil end
  local expires_at = (index + 1) * window
  if current > 0 then expires_at = expires_at + window end
  return encode_counts(index, current, previous), expires_at
end

local counted_refund = sliding_window_counter_refund

local function compact_refund(_, now, charge, key, spent_at, field, odd_key)
  local is_valid, is_ahead = read_counter(now, charge.window, false, key, field, odd_key)
  if not is_valid and not is_ahead then return false, true end
  local next_value, expires_at = counted_refund(true, now, charge, key, spent_at)
  if next_value == nil then return delete_counter() end
  return next_value, expires_at, stored_key
end
return compact_refund
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

-- refund refunds units that spend counted, if they still count.
--   KEYS                 the counters of the refunds, as in spend; distinct
--   ARGV[1]              now in microseconds since the epoch, or '' to read the clock of this server
--   ARGV[2]              channel on which the key of every refunded counter is published; '' to publish nothing
--   ARGV[3]              the fields of the compact counters in their blocks, as in spend
--   ARGV[4 + 6(i-1)]…    algorithm, limit (units), window (us), capacity (units; see spend), cost (units), and the time at
--                        which spend counted them: now plus ahead in its reply (us)
-- Reply: for each corrupt counter, the index of the refund, from 0. It keeps its value, and starts over when spend counts on it.
-- Must never happen: a refund of more units than count; a key without a time to live; a longer time to live than before.

-- key_name returns the name of a counter in Go.
local function key_name(key, field)
  if not field then return key end
  local digits = string.gsub(field, '.', function(c) return string.format('%02x', byte(c)) end)
  return key .. '#' .. digits
end

local now, charges, reply = current_time(ARGV[1]), {}, {}
for at = 4, #ARGV, 6 do charges[#charges + 1] = read_charge(at) end
prefetch_values()
for i, charge in ipairs(charges) do
  local spent_at = tonumber(ARGV[4 + 6 * (i - 1) + 5])
  local at_key, field, odd_key = read_key(charge)
  local key = KEYS[at_key]
  if charge.cost > 0 then
    local value, expires_at, block = charge.apply(value_of(at_key, charge), now, charge, key, spent_at, field, odd_key)
    if value ~= false then
      write_value(key, value, expires_at, block, field)
    elseif expires_at then
      reply[#reply + 1] = i - 1
    end
    if ARGV[2] ~= '' then call('PUBLISH', ARGV[2], key_name(key, field)) end
  end
end
return reply
