-- Numbers are doubles here: integers are exact below 2^53, and what follows keeps every one below.
local call, KEYS, ARGV = redis.call, KEYS, ARGV -- globals are slow
local byte, char, floor, ceil, max, min, fmod = string.byte, string.char, math.floor, math.ceil, math.max, math.min, math.fmod

-- NEVER is the wait of a cost above the limit.
local NEVER = -9007199254740991

-- What a run packs and formats for several keys is mostly the same: the same now, the same window, small counts. It is
-- kept, under the negative number: some Lua makes room for an array up to a positive one.
local several = KEYS[2] ~= nil
local packed, written_out = several and {}, several and {}

-- digits is how a number leaves for Redis; tostring would round above 10^14.
local function digits(number)
  local text = several and written_out[-number]
  if text then return text end
  text = string.format('%.0f', number)
  if several then written_out[-number] = text end
  return text
end

-- milliseconds rounds microseconds up: a key may outlive its use by less than a millisecond, and never the reverse.
local function milliseconds(microseconds)
  return digits(ceil(microseconds / 1000))
end

-- A stored number is 7 bytes, big-endian.
local WIDTH = 7

local function pack(number)
  local bytes = several and packed[-number]
  if bytes then return bytes end
  if number < 256 then return '\0\0\0\0\0\0' .. char(number) end
  local low = number % 16777216
  local high = (number - low) / 16777216
  bytes = char(
    floor(high / 16777216), floor(high / 65536) % 256, floor(high / 256) % 256, high % 256,
    floor(low / 65536), floor(low / 256) % 256, low % 256)
  if several then packed[-number] = bytes end
  return bytes
end

-- unpack_number reads the number at bytes[from].
local function unpack_number(bytes, from)
  local a, b, c, d, e, f, g = byte(bytes, from, from + 6)
  return (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g
end

-- unpack_pair reads the number at bytes[from] and the one behind it.
local function unpack_pair(bytes, from)
  local a, b, c, d, e, f, g, h, i, j, k, l, m, n = byte(bytes, from, from + 13)
  return (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g,
    (((((h * 256 + i) * 256 + j) * 256 + k) * 256 + l) * 256 + m) * 256 + n
end

-- SlidingWindowLog: admits iff the units admitted in (now - window, now] plus the cost stay within the limit.
-- The value is the times of the units (us), in one of two layouts:
--   list   'L', then the times, oldest first. For small logs: read whole and written whole.
--   ring   'R', four numbers (capacity in slots, next slot, length in units, newest in us), then capacity slots, oldest
--          to newest from slot (next - length). For large logs: read and written in place, in O(log length) reads.
-- What has expired is forgotten when the next unit is written. Either way reads both, for a limit may have been edited.
local LOG_LIST, LOG_RING, LOG_L = 1, 1 + 4 * WIDTH, 76 -- lengths of what stands before the times, and 'L' as a byte

-- log_search is how many of so many times, oldest first, lie before an instant; time_at(times, i) is the one with index i.
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

-- log_list is a value as a list.
local function log_list(value)
  if not value then return 'L' end
  if byte(value, 1) == LOG_L then return value end
  local capacity, next = unpack_pair(value, 2)
  local length = unpack_number(value, 2 + 2 * WIDTH)
  local first = (next - length) % capacity
  local from = LOG_RING + WIDTH * first + 1
  local straight = string.sub(value, from, from + WIDTH * min(length, capacity - first) - 1)
  return 'L' .. straight .. string.sub(value, LOG_RING + 1, LOG_RING + WIDTH * length - #straight)
end

local function list_time(list, i)
  return unpack_number(list, LOG_LIST + WIDTH * i + 1)
end

-- list_open is a value as a list, its length, the units of it that have expired, and its own time.
local function list_open(value, now, window)
  local list, at = log_list(value), now
  local length = (#list - LOG_LIST) / WIDTH
  if length > 0 then at = max(now, list_time(list, length - 1)) end -- the clock may have stepped back
  return list, length, log_search(list_time, list, length, at - window + 1), at
end

local function sliding_window_log_list_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local list, length, expired, at = list_open(value, now, window)
  local live, reset_after = length - expired, 0
  local remaining, excess = max(0, units - live), live + cost - units
  if live > 0 then reset_after = list_time(list, length - 1) + window - now end
  if excess <= 0 then
    local unit = pack(at)
    if cost ~= 1 then unit = string.rep(unit, cost) end
    if expired > 0 then list = 'L' .. string.sub(list, LOG_LIST + WIDTH * expired + 1) end
    return 0, remaining, reset_after, at, list .. unit, at + window
  end
  local wait = NEVER
  if cost <= units then wait = now - list_time(list, expired + excess - 1) - window end -- once the excess has expired
  return wait, remaining, reset_after, at
end

local step, READS_WHOLE, QUEUES = sliding_window_log_list_step, true, false

-- spend_one decides one charge under one algorithm: spend for who comes alone.
--   KEYS[1]   the counter
--   ARGV      'spend', or 'peek' to change nothing; limit (units), window (us), capacity (units; of a
--             bucket; negative of a LeakyBucket that admits at once or not at all), cost (units);
--             and, unless this server's clock is to be read, now in microseconds since the epoch
-- Reply: that of spend.
-- Must never happen: a write when it is denied, or on peek; a key without a time to live.
local key, now = KEYS[1], ARGV[6]
if now then
  now = tonumber(now)
else
  now = call('TIME')
  now = now[1] * 1000000 + now[2]
end
local capacity = tonumber(ARGV[4])
local charge = {
  units = tonumber(ARGV[2]), window = tonumber(ARGV[3]), capacity = max(capacity, -capacity), at_once = capacity < 0,
  cost = tonumber(ARGV[5]), queues = QUEUES,
}

local value
if READS_WHOLE then value = call('MGET', key)[1] end
local wait, remaining, reset_after, at, next_value, free, kept = step(value, now, charge, key)
if next_value and charge.cost > 0 and ARGV[1] == 'spend' then
  if type(next_value) == 'function' then
    next_value()
  elseif kept then
    call('SET', key, next_value, 'KEEPTTL')
  else
    call('SET', key, next_value, 'PXAT', milliseconds(free))
  end
  remaining, reset_after = remaining - charge.cost, free - now
end
return {now, at - now, remaining, reset_after, wait}
