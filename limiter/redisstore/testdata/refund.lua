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

-- The value of counted windows says index, that of the current window since the epoch, and the units of it and of the one
-- before. Where they are small enough it is one whole number, which Redis keeps in 16 bytes: the three in radix 256, 4096 or
-- 65536, and which it is. Else it is their bytes.
local function counts_value(index, current, previous)
  local radix, which, most = 256, 0, max(current, previous)
  if most >= 4096 then radix, which = 65536, 2 elseif most >= 256 then radix, which = 4096, 1 end
  local number = ((index * radix + current) * radix + previous) * 4 + which
  if most < radix and number < 9007199254740992 then return digits(number) end
  return pack(index) .. pack(current) .. pack(previous)
end

local function counts_of(value)
  if #value == 3 * WIDTH then
    local index, current = unpack_pair(value, 1)
    return index, current, unpack_number(value, 1 + 2 * WIDTH)
  end
  local number = tonumber(value)
  local which = number % 4
  local radix = which == 0 and 256 or which == 1 and 4096 or 65536
  number = (number - which) / 4
  local previous = number % radix
  number = (number - previous) / radix
  local current = number % radix
  return (number - current) / radix, current, previous
end

-- mul_div returns the whole quotient and the remainder of a * b / c, exact for a < 2^30 and b, c <= 2^42. What is too
-- large for one step it multiplies ten bits of a at a time: remainder * 2^10 + ten bits * b stays below 2^53.
local function mul_div(a, b, c)
  local product = a * b
  local remainder = fmod(product, c)
  if product < 9007199254740992 then return (product - remainder) / c, remainder end
  product = floor(a / 1048576) * b
  remainder = fmod(product, c)
  local quotient = (product - remainder) / c
  product = remainder * 1024 + floor(a / 1024) % 1024 * b
  remainder = fmod(product, c)
  quotient = quotient * 1024 + (product - remainder) / c
  product = remainder * 1024 + a % 1024 * b
  remainder = fmod(product, c)
  return quotient * 1024 + (product - remainder) / c, remainder
end

local function load_fixed_window()
-- FixedWindow: admits iff the units admitted in the current window plus the cost stay within the limit; windows are
-- aligned to the epoch.
-- The value is that of counts, of a window without one before.

local function fixed_window_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local index, count, kept = floor(now / window), 0, false
  if value then
    local stored, counted = counts_of(value)
    if stored >= index then index, count, kept = stored, counted, true end -- later if the clock has stepped back
  end
  local start, finish, reset_after = index * window, (index + 1) * window, 0
  if count > 0 then reset_after = finish - now end
  if count + cost <= units then
    return 0, max(0, units - count), reset_after, max(now, start), counts_value(index, count + cost, 0), finish, kept
  end
  local wait = now - finish
  if cost > units then wait = NEVER end
  return wait, max(0, units - count), reset_after, max(now, start)
end

local function fixed_window_refund(value, now, charge, _, at)
  if not value then return false end
  local index, count = counts_of(value)
  if floor(now / charge.window) > index or floor(at / charge.window) ~= index then return false end
  if count <= charge.cost then return nil end
  return counts_value(index, count - charge.cost, 0), (index + 1) * charge.window
end
return fixed_window_refund
end

local function load_sliding_window_log()
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

-- ring_bytes reads bytes of the value, the first being 0.
local function ring_bytes(ring, from, count)
  return call('GETRANGE', ring.key, from, from + count - 1)
end

-- ring_time is when the unit with index i was admitted, 0 being the oldest held.
local function ring_time(ring, i)
  return unpack_number(ring_bytes(ring, ring.header + WIDTH * ((ring.first + i) % ring.capacity), WIDTH), 1)
end

-- ring_live is the bytes of the units that count.
local function ring_live(ring)
  if ring.live == 0 then return '' end
  local slot = (ring.first + ring.expired) % ring.capacity
  local straight = min(ring.live, ring.capacity - slot)
  local times = ring_bytes(ring, ring.header + WIDTH * slot, WIDTH * straight)
  if straight == ring.live then return times end
  return times .. ring_bytes(ring, ring.header, WIDTH * (ring.live - straight))
end

-- ring_open reads what stands before the times. A list is a ring of as many slots as it has units.
local function ring_open(key, now, window)
  local ring = {key = key, window = window, header = LOG_LIST, first = 0, capacity = 1, length = 0, newest = 0}
  local header = ring_bytes(ring, 0, LOG_RING)
  if byte(header, 1) == LOG_L then
    ring.length = (call('STRLEN', key) - LOG_LIST) / WIDTH
    ring.capacity = ring.length
    ring.newest = ring_time(ring, ring.length - 1)
  elseif header ~= '' then
    local next
    ring.header = LOG_RING
    ring.capacity, next = unpack_pair(header, 2)
    ring.length, ring.newest = unpack_pair(header, 2 + 2 * WIDTH)
    ring.first = (next - ring.length) % ring.capacity
  end
  ring.at = max(now, ring.newest) -- the clock may have stepped back
  ring.expired = log_search(ring_time, ring, ring.length, ring.at - window + 1)
  ring.live = ring.length - ring.expired
  return ring
end

-- ring_head writes what stands before the times, and lets the key live as long as its newest unit counts.
local function ring_head(ring)
  call('SETRANGE', ring.key, 0, 'R' .. pack(ring.capacity) ..
    pack((ring.first + ring.length) % ring.capacity) .. pack(ring.length) .. pack(ring.newest))
  call('PEXPIREAT', ring.key, milliseconds(ring.newest + ring.window))
end

-- ring_lay lays times, as bytes, out anew in a ring of capacity slots, which hold them all. The head is still to write.
local function ring_lay(ring, times, capacity)
  call('SET', ring.key, string.rep('\0', LOG_RING) .. times)
  ring.header, ring.first, ring.expired, ring.capacity = LOG_RING, 0, 0, capacity
  ring.live = #times / WIDTH
  ring.length = ring.live
end

-- ring_extend writes cost units behind the newest.
local function ring_extend(ring, units, cost)
  if ring.header ~= LOG_RING or ring.capacity ~= units then ring_lay(ring, ring_live(ring), units) end
  local unit = pack(ring.at)
  local slot = (ring.first + ring.length) % ring.capacity
  local straight = min(cost, ring.capacity - slot)
  call('SETRANGE', ring.key, LOG_RING + WIDTH * slot, string.rep(unit, straight))
  if straight < cost then
    call('SETRANGE', ring.key, LOG_RING, string.rep(unit, cost - straight))
  end
  ring.first = (ring.first + ring.expired) % ring.capacity
  ring.live = ring.live + cost
  ring.length, ring.expired, ring.newest = ring.live, 0, ring.at
  ring_head(ring)
end

local function ring_step(key, now, charge)
  local units, cost, ring = charge.units, charge.cost, ring_open(key, now, charge.window)
  local remaining, reset_after, excess = max(0, units - ring.live), 0, ring.live + cost - units
  if ring.live > 0 then reset_after = ring.newest + ring.window - now end
  if excess <= 0 then
    local write = function() ring_extend(ring, units, cost) end
    return 0, remaining, reset_after, ring.at, write, ring.at + ring.window
  end
  local wait = NEVER
  if cost <= units then wait = now - ring_time(ring, ring.expired + excess - 1) - ring.window end
  return wait, remaining, reset_after, ring.at
end

local function sliding_window_log_step(value, now, charge, key)
  if value == nil then return ring_step(key, now, charge) end
  return sliding_window_log_list_step(value, now, charge)
end

-- log_without takes as many of cost units out of live times, as bytes, as were admitted at an instant.
local function log_without(times, cost, instant)
  local list = 'L' .. times
  local length = #times / WIDTH
  local first = log_search(list_time, list, length, instant)
  local count = min(cost, log_search(list_time, list, length, instant + 1) - first)
  return string.sub(times, 1, WIDTH * first) .. string.sub(times, WIDTH * (first + count) + 1)
end

local function list_refund(value, now, charge, at)
  local list, _, expired = list_open(value, now, charge.window)
  local times = string.sub(list, LOG_LIST + WIDTH * expired + 1)
  local left = log_without(times, charge.cost, at)
  if #left == #times then return false end
  if left == '' then return nil end
  return 'L' .. left, unpack_number(left, #left - WIDTH + 1) + charge.window
end

local function ring_refund(key, now, charge, at)
  local ring = ring_open(key, now, charge.window)
  local times = ring_live(ring)
  local left = log_without(times, charge.cost, at)
  if #left == #times then return false end
  if left == '' then return nil end
  ring_lay(ring, left, max(ring.capacity, #left / WIDTH))
  ring.newest = unpack_number(left, #left - WIDTH + 1)
  ring_head(ring)
  return false
end

local function sliding_window_log_refund(value, now, charge, key, at)
  if value == nil then return ring_refund(key, now, charge, at) end
  return list_refund(value, now, charge, at)
end
return sliding_window_log_refund
end

local function load_sliding_window_counter()
-- SlidingWindowCounter: admits iff current + previous * (window - elapsed) / window + cost <= limit, where elapsed is
-- the time since the current window began; windows are aligned to the epoch. Everything but the weighted previous
-- count is whole, so comparing against its ceiling is comparing the real numbers.
-- The value is that of counts.

-- counter_open returns index, current and previous now, and whether value says the same.
local function counter_open(value, now, window)
  local index = floor(now / window)
  if not value then return index, 0, 0, false end
  local stored, current, previous = counts_of(value)
  if stored >= index then return stored, current, previous, true end -- later if the clock has stepped back
  if stored == index - 1 then return index, 0, current, false end
  return index, 0, 0, false
end

-- counter_weighs_at_most is the least elapsed time at which previous units weigh no more than most, which is less.
local function counter_weighs_at_most(previous, most, window)
  return window - (mul_div(most, window, previous))
end

-- counter_wait is when no more than most units are used, given that more are now: so long ago, for it is to come.
local function counter_wait(now, start, window, current, previous, most)
  if current <= most then
    return now - start - counter_weighs_at_most(previous, most - current, window)
  end
  return now - start - window - counter_weighs_at_most(current, most, window)
end

local function sliding_window_counter_step(value, now, charge)
  local window, units, cost = charge.window, charge.units, charge.cost
  local index, current, previous, kept = counter_open(value, now, window)
  local start = index * window
  local at, used, reset_after = max(now, start), current, 0
  if previous > 0 then
    local quotient, remainder = mul_div(previous, window - (at - start), window)
    used = used + quotient
    if remainder > 0 then used = used + 1 end
    reset_after = start + window - now
  end
  if current > 0 then reset_after = start + 2 * window - now end
  if used + cost <= units then
    return 0, max(0, units - used), reset_after, at,
      counts_value(index, current + cost, previous), start + 2 * window, kept and current > 0
  end
  local wait = NEVER
  if cost <= units then wait = counter_wait(now, start, window, current, previous, units - cost) end
  return wait, max(0, units - used), reset_after, at
end

local function sliding_window_counter_refund(value, now, charge, _, at)
  local window = charge.window
  local index, current, previous = counter_open(value, now, window)
  local ago = index - floor(at / window)
  if ago == 0 and current > 0 then
    current = max(0, current - charge.cost)
  elseif ago == 1 and previous > 0 then
    previous = max(0, previous - charge.cost)
  else
    return false
  end
  if current == 0 and previous == 0 then return nil end
  local free = (index + 1) * window
  if current > 0 then free = free + window end
  return counts_value(index, current, previous), free
end
return sliding_window_counter_refund
end

local function load_bucket()
-- TokenBucket and LeakyBucket share a meter: its level rises by the cost of what is admitted and sinks steadily by limit
-- units per window. A request is admitted iff the level plus its cost stay within the capacity. To a TokenBucket the
-- level is the tokens that are missing, and the capacity is its burst; to a LeakyBucket it is the units that are still to
-- leave, a queue of burst and the one on its way out, and the time the level takes to sink is the wait of the next: who
-- cannot wait is admitted at level 0 alone.
-- The value is four numbers: at, whole, part and ends; the level was whole + part / window units at that instant (us),
-- and sinks to nothing when it ends (us): a limit that is lowered later does not put that off.

-- bucket_sink returns at and the level (whole, part) that was so at that instant, brought to now; never above the capacity,
-- then as now: a burst that was lowered blocks no longer than it implies, and the wait it answers falls with time.
local function bucket_sink(at, whole, part, now, charge)
  local elapsed, units, window = max(0, now - at), charge.units, charge.window -- the clock may have stepped back
  if whole >= charge.capacity then whole, part = charge.capacity, 0 end
  local rest = fmod(elapsed, window)
  local sunk, sunk_part = mul_div(units, rest, window)
  whole, part = whole - (elapsed - rest) / window * units - sunk, part - sunk_part
  if part < 0 then whole, part = whole - 1, part + window end
  if whole < 0 then whole, part = 0, 0 end
  return at + elapsed, whole, part
end

-- bucket_open returns at, whole, part and ends, brought to now.
local function bucket_open(value, now, charge)
  if not value then return now, 0, 0, 0 end
  local ends = unpack_number(value, 22)
  if now >= ends then return now, 0, 0, ends end
  local at, whole = unpack_pair(value, 1)
  local part = unpack_number(value, 15)
  at, whole, part = bucket_sink(at, whole, part, now, charge)
  return at, whole, part, ends
end

-- bucket_drain is how long a level takes to sink by whole + part / window units, at the limit's rate.
local function bucket_drain(whole, part, charge)
  local quotient, remainder = mul_div(whole, charge.window, charge.units)
  return quotient + ceil((remainder + part) / charge.units)
end

local function bucket_step(value, now, charge)
  local cost, capacity = charge.cost, charge.capacity
  local room = capacity - cost -- the highest level that admits it
  if charge.at_once and cost > 0 then room = min(room, 0) end
  local at, whole, part, ends = bucket_open(value, now, charge)
  local used, reset_after, wait = whole, 0, 0
  if part > 0 then used = whole + 1 end
  if used > 0 then reset_after = min(at + bucket_drain(whole, part, charge), ends) - now end
  if used <= room then
    if charge.queues and cost > 0 then wait = reset_after end
    local free = at + bucket_drain(whole + cost, part, charge)
    return wait, capacity - used, reset_after, at, pack(at) .. pack(whole + cost) .. pack(part) .. pack(free), free
  end
  wait = NEVER
  if room >= 0 then wait = now - min(at + bucket_drain(whole - room, part, charge), ends) end
  return wait, capacity - used, reset_after, at
end

-- bucket_refund takes back what of the cost cannot have drained since: the whole units that are left of it at the least.
local function bucket_refund(value, now, charge, _, spent_at)
  local at, whole, part, ends = bucket_open(value, now, charge)
  local _, left = bucket_sink(spent_at, charge.cost, 0, at, charge)
  if (whole == 0 and part == 0) or left == 0 then return false end
  whole = whole - left
  if whole < 0 or (whole == 0 and part == 0) then return nil end
  ends = min(at + bucket_drain(whole, part, charge), ends)
  return pack(at) .. pack(whole) .. pack(part) .. pack(ends), ends
end
return bucket_refund
end

-- load_algorithm returns what an algorithm does in this script.
--   step(value, now, charge, key): wait (0 or the delay if the charge is allowed, else the retry after, negative, or
--     NEVER), remaining, reset after and the counter's own time; if it is allowed also the value with the cost counted
--     (or a function that writes it), the instant at which the counter will be as new, and whether the key expires then
--     already. It changes nothing.
--   refund(value, now, charge, key, at): false if there is nothing to write, else the value without what was spent at that
--     instant as far as it counts, nil for none, and the instant at which the counter will be as new.
-- value is false where there is none, nil for a log that is read in place.
local function load_algorithm(name)
  if name == 'SlidingWindowCounter' then return load_sliding_window_counter() end
  if name == 'TokenBucket' or name == 'LeakyBucket' then return load_bucket() end
  if name == 'FixedWindow' then return load_fixed_window() end
  if name == 'SlidingWindowLog' then return load_sliding_window_log() end
  error('unknown algorithm ' .. name)
end

local MAX_WHOLE_LOG = 256
-- What the scripts that work on counters read from ARGV and KEYS.

-- instant is now in microseconds since the epoch, this server's own where the argument is empty.
local function instant(argument)
  if argument ~= '' then return tonumber(argument) end
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

-- whole is false when a log of this run is read and written in place: then all of its logs are.
local whole = true

-- What has been asked of an algorithm is kept: charges seldom differ in it.
local loaded = {}

-- charge_at reads five arguments from ARGV[at] on: algorithm, limit (units), window (us), capacity (units; of a bucket;
-- negative of a LeakyBucket that admits at once or not at all), cost (units).
-- work is what the algorithm does, see load.
local function charge_at(at)
  local name, capacity = ARGV[at], tonumber(ARGV[at + 3])
  local charge = {
    work = loaded[name], units = tonumber(ARGV[at + 1]), window = tonumber(ARGV[at + 2]),
    capacity = max(capacity, -capacity), at_once = capacity < 0, cost = tonumber(ARGV[at + 4]), queues = name == 'LeakyBucket', logs = name == 'SlidingWindowLog', enforced = true,
  }
  if not charge.work then
    charge.work = load_algorithm(name)
    loaded[name] = charge.work
  end
  if charge.logs and charge.units > MAX_WHOLE_LOG then whole = false end
  return charge
end

-- What is read of the counters, by place in KEYS, and what has been written, by key.
local values, written = {}, {}

-- read_values reads the values of all keys at once where all are read whole. Call it when all charges are known. To MGET,
-- what is no string is nothing, and gives way.
local function read_values()
  if not whole or not several then return end
  for from = 1, #KEYS, 1000 do -- unpack has a limit
    local read = call('MGET', unpack(KEYS, from, min(from + 999, #KEYS)))
    for i = 1, #read do values[from + i - 1] = read[i] end
  end
end

-- value_of is the value of KEYS[place], false if there is none, nil if it is read in place.
local function value_of(place, charge)
  local value = written[KEYS[place]]
  if value == nil then value = values[place] end
  if value == nil and (whole or not charge.logs) then value = call('MGET', KEYS[place])[1] end
  return value
end

-- write writes a value, nil for none; microseconds is when its key expires, kept whether it does so already.
local function write(key, value, microseconds, kept)
  if not value then
    call('DEL', key)
  elseif kept then
    call('SET', key, value, 'KEEPTTL')
  else
    call('SET', key, value, 'PXAT', milliseconds(microseconds))
  end
  if several then written[key] = value or false end
end

-- refund takes back what spend counted, as far as it still counts.
--   KEYS[i]              the counter of refund i; keys are distinct
--   ARGV[1]              now in microseconds since the epoch, or '' for this server's clock
--   ARGV[2]              a channel that is told every key of which something is taken back, or '' for none
--   ARGV[3 + 6(i-1) ..]  algorithm, limit (units), window (us), burst (units), cost (units), when spend said that it
--                        had decided (us)
-- Reply: 1.
-- Must never happen: more taken back than counts; a key without a time to live; a key that lives longer than before.
local ARGUMENTS = 6

local now, charges = instant(ARGV[1]), {}
for place = 1, #KEYS do charges[place] = charge_at(3 + ARGUMENTS * (place - 1)) end
read_values()
for place, charge in ipairs(charges) do
  local at = tonumber(ARGV[3 + ARGUMENTS * (place - 1) + 5])
  if charge.cost > 0 then
    local value, free = charge.work(value_of(place, charge), now, charge, KEYS[place], at)
    if value ~= false then write(KEYS[place], value, free) end
    if ARGV[2] ~= '' then call('PUBLISH', ARGV[2], KEYS[place]) end
  end
end
return 1
