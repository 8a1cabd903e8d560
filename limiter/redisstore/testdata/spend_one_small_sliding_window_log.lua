-- All numbers are doubles: integers are exact below 2^53, and all numbers here stay below.
local call, KEYS, ARGV = redis.call, KEYS, ARGV -- locals are faster than globals
local byte, char, floor, ceil, max, min, fmod = string.byte, string.char, math.floor, math.ceil, math.max, math.min, math.fmod

-- NEVER is the wait of a cost above the limit.
local NEVER = -9007199254740991

-- With several keys, a run packs and formats mostly the same numbers: the same now, the same window, small counts. They
-- are cached under the negative number, because some Lua versions allocate an array up to a positive index.
local several_keys = KEYS[2] ~= nil
local pack_cache, format_cache = several_keys and {}, several_keys and {}

-- format_integer formats a number for a Redis command; tostring would round above 10^14.
local function format_integer(number)
  local text = several_keys and format_cache[-number]
  if text then return text end
  text = string.format('%.0f', number)
  if several_keys then format_cache[-number] = text end
  return text
end

-- to_milliseconds rounds up: a key can live up to one millisecond too long, never too short.
local function to_milliseconds(microseconds)
  return format_integer(ceil(microseconds / 1000))
end

-- Values that no script wrote can have any bytes. Larger numbers than these prove that a value is corrupt. A time can be
-- later than now because the clock stepped back.
local MAX_AHEAD, MAX_UNITS, MAX_LOG_UNITS = 31536000000000, 1000000000, 1000000 -- us (a year), units, units of a log

-- A stored number has 7 bytes, big-endian.
local WIDTH = 7

local function pack(number)
  local bytes = several_keys and pack_cache[-number]
  if bytes then return bytes end
  if number < 256 then return '\0\0\0\0\0\0' .. char(number) end
  local low = number % 16777216
  local high = (number - low) / 16777216
  bytes = char(
    floor(high / 16777216), floor(high / 65536) % 256, floor(high / 256) % 256, high % 256,
    floor(low / 65536), floor(low / 256) % 256, low % 256)
  if several_keys then pack_cache[-number] = bytes end
  return bytes
end

-- unpack_number returns the number at bytes[from].
local function unpack_number(bytes, from)
  local a, b, c, d, e, f, g = byte(bytes, from, from + 6)
  return (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g
end

-- unpack_pair returns the number at bytes[from] and the next one.
local function unpack_pair(bytes, from)
  local a, b, c, d, e, f, g, h, i, j, k, l, m, n = byte(bytes, from, from + 13)
  return (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g,
    (((((h * 256 + i) * 256 + j) * 256 + k) * 256 + l) * 256 + m) * 256 + n
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
  local capacity, next = unpack_pair(value, 2)
  local length = unpack_number(value, 2 + 2 * WIDTH)
  if not is_ring(capacity, next, length) then return nil end
  local first = (next - length) % capacity
  local from = RING_HEADER + WIDTH * first + 1
  local before_end = string.sub(value, from, from + WIDTH * min(length, capacity - first) - 1)
  local list = 'L' .. before_end .. string.sub(value, RING_HEADER + 1, RING_HEADER + WIDTH * length - #before_end)
  return #list == LIST_HEADER + WIDTH * length and list or nil
end

local function list_time(list, i)
  return unpack_number(list, LIST_HEADER + WIDTH * i + 1)
end

-- list_read returns the value as a list, its length, the number of its expired units, and the counter's own time; nil if
-- the value is corrupt.
local function list_read(value, now, window)
  local list, at = log_as_list(value), now
  if not list then return nil end
  local length = (#list - LIST_HEADER) / WIDTH
  if length > 0 then at = max(now, list_time(list, length - 1)) end -- the clock may have stepped back
  if at > now + MAX_AHEAD then return nil end
  return list, length, log_search(list_time, list, length, at - window + 1), at
end

local function sliding_window_log_list_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local list, length, expired, at = list_read(value, now, window)
  if not list then return nil end
  local live, reset_after = length - expired, 0
  local remaining, excess = max(0, units - live), live + cost - units
  if live > 0 then reset_after = list_time(list, length - 1) + window - now end
  if excess <= 0 then
    local unit = pack(at)
    if cost ~= 1 then unit = string.rep(unit, cost) end
    if expired > 0 then list = 'L' .. string.sub(list, LIST_HEADER + WIDTH * expired + 1) end
    return 0, remaining, reset_after, at, list .. unit, at + window
  end
  if cost > units then return NEVER, remaining, reset_after, at end
  local last = list_time(list, expired + excess - 1) -- the excess has expired when this unit has
  if not is_live(last, at, window) then return nil end
  return now - last - window, remaining, reset_after, at
end

local step = sliding_window_log_list_step
local READS_WHOLE, QUEUES, IS_COMPACT = true, false, false

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
local key, now = KEYS[1], ARGV[IS_COMPACT and 7 or 6]
if now then
  now = tonumber(now)
else
  now = call('TIME')
  now = now[1] * 1000000 + now[2]
end
local capacity, max_delay = read_capacity(tonumber(ARGV[4]))
local cost, needed, debt = read_cost(tonumber(ARGV[5]))
local charge = {
  units = tonumber(ARGV[2]), window = tonumber(ARGV[3]), capacity = capacity, max_delay = max_delay,
  cost = cost, needed = needed, debt = debt, queues = QUEUES,
}

local value
if READS_WHOLE then value = call('MGET', key)[1] end
local wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = step(value, now, charge, key, ARGV[6], KEYS[2])
local corrupt
if not wait then
  corrupt = 0
  wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = step(false, now, charge, key, ARGV[6], KEYS[2])
end
if next_value and cost > 0 and ARGV[1] == 'spend' then
  if type(next_value) == 'function' then
    next_value()
  elseif IS_COMPACT then
    call('HSET', keep_ttl, ARGV[6], next_value)
  elseif keep_ttl then
    call('SET', key, next_value, 'KEEPTTL')
  else
    call('SET', key, next_value, 'PXAT', to_milliseconds(expires_at))
  end
  remaining, reset_after = max(0, remaining - cost), expires_at - now
end
return {now, at - now, remaining, reset_after, wait, corrupt}
