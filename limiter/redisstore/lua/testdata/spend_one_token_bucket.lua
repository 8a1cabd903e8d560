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

local step = bucket_step

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

