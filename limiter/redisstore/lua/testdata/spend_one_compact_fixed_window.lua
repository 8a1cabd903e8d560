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

local step = compact_step

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
local key, now = KEYS[1], ARGV[true and 7 or 6]
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
  elseif true then
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
