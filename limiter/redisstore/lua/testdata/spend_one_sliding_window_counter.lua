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

local step = sliding_window_counter_step

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

