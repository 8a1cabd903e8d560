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

-- A stored number has 7 bytes, big-endian. pack and unpack_numbers are those of the struct library of Redis.
local struct = rawget(_G, 'struct') or {}
local pack, unpack_numbers = struct.pack, struct.unpack

if not pack then -- a server that behaves like Redis, without the library
  pack = function(_, ...)
    local bytes = ''
    for _, number in ipairs({...}) do
      local seven = ''
      for _ = 1, 7 do
        seven = char(number % 256) .. seven
        number = floor(number / 256)
      end
      bytes = bytes .. seven
    end
    return bytes
  end

  unpack_numbers = function(format, bytes, from)
    local numbers = {}
    for i = 1, (#format - 1) / 2 do
      local number, first = 0, (from or 1) + 7 * (i - 1)
      for at = first, first + 7 - 1 do number = number * 256 + byte(bytes, at) end
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
-- The value has the time of each unit (us), in one of two layouts:
--   list   'L', then the times, oldest first. For small logs: read and written as a whole.
--   ring   'R', four numbers (capacity in slots, next slot, length in units, newest time in us), then the slots. The oldest
--          time is in slot (next - length). For large logs: read and written in place, with O(log length) reads.
-- Expired units are removed when the next unit is written. Both layouts read both, because a limit can change.

-- is_list_length reports whether a list with at least one time can have that length in bytes.
local function is_list_length(length)
  return length > 1 and length % 7 == 1
end

-- is_ring reports whether a ring can have these numbers in its header.
local function is_ring(capacity, next, length)
  return capacity <= 1000000 and next < capacity and length > 0 and length <= capacity
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
  if mark == 76 then return is_list_length(#value) and value or nil end
  if mark ~= 82 or #value < (1 + 4 * 7) then return nil end
  local capacity, next, length = unpack_numbers('>I7I7I7', value, 2)
  if not is_ring(capacity, next, length) then return nil end
  local first = (next - length) % capacity
  local from = (1 + 4 * 7) + 7 * first + 1
  local before_end = string.sub(value, from, from + 7 * min(length, capacity - first) - 1)
  local list = 'L' .. before_end .. string.sub(value, (1 + 4 * 7) + 1, (1 + 4 * 7) + 7 * length - #before_end)
  return #list == 1 + 7 * length and list or nil
end

local function list_time(list, i)
  return (unpack_numbers('>I7', list, 1 + 7 * i + 1))
end

-- list_read returns the value as a list, its length, the number of its expired units, the counter's own time, and the newest
-- time if there is one; nil if the value is corrupt, nil and true if it is too far ahead.
local function list_read(value, now, window)
  local list, at = log_as_list(value), now
  if not list then return nil end
  local length, newest = (#list - 1) / 7, nil
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

-- ring_bytes reads count bytes of the value from index from, which starts at 0.
local function ring_bytes(ring, from, count)
  return call('GETRANGE', ring.key, from, from + count - 1)
end

-- ring_time returns the time of unit i; unit 0 is the oldest. If the value lacks the slot, it marks the ring as corrupt.
local function ring_time(ring, i)
  local bytes = ring_bytes(ring, ring.header + 7 * ((ring.first + i) % ring.capacity), 7)
  if #bytes == 7 then return (unpack_numbers('>I7', bytes)) end
  ring.is_corrupt = true
  return 0
end

-- ring_times returns the times of count units from unit i, as bytes. It returns '' if slots are missing.
local function ring_times(ring, i, count)
  if count == 0 then return '' end
  local slot = (ring.first + i) % ring.capacity
  local before_end = min(count, ring.capacity - slot)
  local times = ring_bytes(ring, ring.header + 7 * slot, 7 * before_end)
  if before_end < count then times = times .. ring_bytes(ring, ring.header, 7 * (count - before_end)) end
  return #times == 7 * count and times or ''
end

-- ring_live_times returns the times of the units that have not expired, as bytes. It returns '' if slots are missing.
local function ring_live_times(ring) return ring_times(ring, ring.expired, ring.live) end

-- ring_read_header returns the first bytes of the value; nil if the key is not a string.
local function ring_read_header(key)
  local header = redis.pcall('GETRANGE', key, 0, (1 + 4 * 7) - 1)
  if type(header) ~= 'table' then return header end
  if string.find(header.err, 'WRONGTYPE', 1, true) then return nil end
  return call('GETRANGE', key, 0, (1 + 4 * 7) - 1) -- raises the error
end

-- ring_read reads the header. It treats a list as a full ring. It returns nil if the value is corrupt, nil and true if it is
-- too far ahead.
local function ring_read(key, now, window)
  local ring = {key = key, window = window, header = 1, first = 0, capacity = 1, length = 0, newest = 0}
  local header = ring_read_header(key)
  local mark = header and byte(header, 1)
  if mark == 76 then
    local bytes = call('STRLEN', key)
    if not is_list_length(bytes) then return nil end
    ring.length = (bytes - 1) / 7
    ring.capacity = ring.length
    ring.newest = ring_time(ring, ring.length - 1)
  elseif mark == 82 and #header == (1 + 4 * 7) then
    ring.header = (1 + 4 * 7)
    local capacity, next, length, newest = unpack_numbers('>I7I7I7I7', header, 2)
    ring.capacity, ring.length, ring.newest = capacity, length, newest
    if not is_ring(ring.capacity, next, ring.length) then return nil end
    ring.first = (next - ring.length) % ring.capacity
  elseif header ~= '' then
    return nil
  end
  ring.at = max(now, ring.newest) -- the clock may have stepped back
  if ring.at > now + window then return nil, true end
  ring.expired = log_search(ring_time, ring, ring.length, ring.at - window + 1)
  ring.live = ring.length - ring.expired
  if ring.is_corrupt then return nil end
  if ring.live > 0 and not is_live(ring.newest, ring.at, window) then return nil end
  return ring
end

-- ring_write_header writes the header. The key expires with the newest unit.
local function ring_write_header(ring)
  call('SETRANGE', ring.key, 0, 'R' .. pack('>I7I7I7I7',
    ring.capacity, (ring.first + ring.length) % ring.capacity, ring.length, ring.newest))
  call('PEXPIREAT', ring.key, to_milliseconds(ring.newest + ring.window))
end

-- ring_rewrite replaces the slots with times, as bytes, in a ring of that capacity, which is large enough for them. The
-- caller writes the header.
local function ring_rewrite(ring, times, capacity)
  call('SET', ring.key, string.rep('\0', (1 + 4 * 7)) .. times)
  ring.header, ring.first, ring.expired, ring.capacity = (1 + 4 * 7), 0, 0, capacity
  ring.live = #times / 7
  ring.length = ring.live
end

-- ring_append appends cost units, and removes the expired ones.
local function ring_append(ring, units, cost)
  if ring.header ~= (1 + 4 * 7) or ring.capacity ~= units then ring_rewrite(ring, ring_live_times(ring), units) end
  local unit = pack('>I7', ring.at)
  local slot = (ring.first + ring.length) % ring.capacity
  local before_end = min(cost, ring.capacity - slot)
  call('SETRANGE', ring.key, (1 + 4 * 7) + 7 * slot, string.rep(unit, before_end))
  if before_end < cost then
    call('SETRANGE', ring.key, (1 + 4 * 7), string.rep(unit, cost - before_end))
  end
  ring.first = (ring.first + ring.expired) % ring.capacity
  ring.live = ring.live + cost
  ring.length, ring.expired, ring.newest = ring.live, 0, ring.at
  ring_write_header(ring)
end

local function ring_step(key, now, charge)
  local units, cost = charge.units, charge.cost
  local ring, is_ahead = ring_read(key, now, charge.window)
  if not ring then return nil, is_ahead end
  local remaining, reset_after, excess = max(0, units - ring.live), 0, ring.live + cost - units
  if ring.live > 0 then reset_after = ring.newest + ring.window - now end
  if excess <= 0 then
    local write = function() ring_append(ring, units, cost) end
    return 0, remaining, reset_after, ring.at, write, ring.at + ring.window
  end
  if cost > units then return (-9007199254740991), remaining, reset_after, ring.at end
  local last = ring_time(ring, ring.expired + excess - 1) -- the excess has expired when this unit has
  if not is_live(last, ring.at, ring.window) then return nil end
  if last > now then return nil, true end
  return now - last - ring.window, remaining, reset_after, ring.at
end

local function sliding_window_log_step(value, now, charge, key)
  if value == nil then return ring_step(key, now, charge) end
  return sliding_window_log_list_step(value, now, charge)
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
