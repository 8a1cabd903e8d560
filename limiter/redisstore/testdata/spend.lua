-- Numbers are doubles here: integers are exact below 2^53, and what follows keeps every one below.

-- NEVER is the retry time of a cost above the limit.
local NEVER = -1

-- text is how a number leaves for a command or a stored value; tostring would round above 10^14.
local function text(number)
  return string.format('%.0f', number)
end

-- milliseconds rounds microseconds up: a key may outlive its use by less than a millisecond, and never the reverse.
local function milliseconds(microseconds)
  return text(math.ceil(microseconds / 1000))
end

-- mul_div returns the whole quotient and the remainder of a * b / c, exact for a < 2^30 and b, c <= 2^42. What is too
-- large for one step it multiplies ten bits of a at a time: remainder * 2^10 + ten bits * b stays below 2^53.
local function mul_div(a, b, c)
  local product = a * b
  local remainder = math.fmod(product, c)
  if product < 9007199254740992 then return (product - remainder) / c, remainder end
  product = math.floor(a / 1048576) * b
  remainder = math.fmod(product, c)
  local quotient = (product - remainder) / c
  product = remainder * 1024 + math.floor(a / 1024) % 1024 * b
  remainder = math.fmod(product, c)
  quotient = quotient * 1024 + (product - remainder) / c
  product = remainder * 1024 + a % 1024 * b
  remainder = math.fmod(product, c)
  return quotient * 1024 + (product - remainder) / c, remainder
end

local function load_fixed_window()
-- FixedWindow: admits iff the units admitted in the current window plus the cost stay within the limit; windows are
-- aligned to the epoch.
-- The state is one string: "index count", index being the number of the window since the epoch.
local fixed_window = {}

function fixed_window.read(key, now, limit)
  local state = {key = key, index = math.floor(now / limit.window), count = 0, at = now, finish = 0}
  local stored = redis.call('GET', key)
  if stored then
    local index, count = string.match(stored, '^(%d+) (%d+)$')
    index = tonumber(index)
    if index >= state.index then state.index, state.count = index, tonumber(count) end -- the clock may have stepped back
  end
  state.at = math.max(now, state.index * limit.window)
  state.finish = (state.index + 1) * limit.window
  return state
end

function fixed_window.decide(state, now, limit, cost)
  local remaining, reset_after = math.max(0, limit.units - state.count), 0
  if state.count > 0 then reset_after = state.finish - now end
  if state.count + cost <= limit.units then return 1, remaining, reset_after, 0, 0 end
  if cost > limit.units then return 0, remaining, reset_after, NEVER, 0 end
  return 0, remaining, reset_after, state.finish - now, 0
end

local function fixed_window_write(state)
  if state.count == 0 then return redis.call('DEL', state.key) end
  redis.call('SET', state.key, text(state.index) .. ' ' .. text(state.count), 'PXAT', milliseconds(state.finish))
end

function fixed_window.spend(state, _, cost)
  state.count = state.count + cost
  fixed_window_write(state)
  return state.finish
end

function fixed_window.refund(state, limit, cost, at)
  if math.floor(at / limit.window) ~= state.index then return end
  state.count = math.max(0, state.count - cost)
  fixed_window_write(state)
end
return fixed_window
end

local function load_sliding_window_log()
-- SlidingWindowLog: admits iff the units admitted in (now - window, now] plus the cost stay within the limit.
-- The state is one string: a header of four numbers, then a ring of slots, each the time of one unit, oldest to newest
-- from slot (next - length). All numbers are 7 bytes, big-endian; a unit costs 7 bytes, a decision O(log length) reads.
--   header: capacity (slots), next (slot of the next unit), length (units held), newest (us)
-- What has expired is forgotten when the next unit is written.
local LOG_NUMBER, LOG_HEADER = 7, 28

local function log_pack(number)
  local low = number % 16777216
  local high = (number - low) / 16777216
  return string.char(
    math.floor(high / 16777216), math.floor(high / 65536) % 256, math.floor(high / 256) % 256, high % 256,
    math.floor(low / 65536), math.floor(low / 256) % 256, low % 256)
end

local function log_unpack(bytes, from)
  local a, b, c, d, e, f, g = string.byte(bytes, from, from + LOG_NUMBER - 1)
  return (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g
end

-- log_units reads the bytes of count units, at least one, from the one with index i on, 0 being the oldest held.
local function log_units(state, i, count)
  local slot = (state.next - state.length + i) % state.capacity
  local straight = math.min(count, state.capacity - slot)
  local from = LOG_HEADER + LOG_NUMBER * slot
  local units = redis.call('GETRANGE', state.key, from, from + LOG_NUMBER * straight - 1)
  if straight == count then return units end
  return units .. redis.call('GETRANGE', state.key, LOG_HEADER, LOG_HEADER + LOG_NUMBER * (count - straight) - 1)
end

-- log_time is when the unit with index i was admitted.
local function log_time(state, i)
  return log_unpack(log_units(state, i, 1), 1)
end

-- log_before counts the units admitted before an instant: they stand first.
local function log_before(state, instant)
  if state.length == 0 or log_time(state, 0) >= instant then return 0 end
  if state.newest < instant then return state.length end
  local last_before, first_after = 0, state.length - 1
  while first_after - last_before > 1 do
    local middle = math.floor((last_before + first_after) / 2)
    if log_time(state, middle) < instant then last_before = middle else first_after = middle end
  end
  return first_after
end

-- log_header writes the header and lets the key live as long as its newest unit counts.
local function log_header(state)
  redis.call('SETRANGE', state.key, 0,
    log_pack(state.capacity) .. log_pack(state.next) .. log_pack(state.length) .. log_pack(state.newest))
  redis.call('PEXPIREAT', state.key, milliseconds(state.newest + state.window))
end

-- log_lay lays units, as bytes, out anew in a ring of capacity slots, which hold them all. The header is still to write.
local function log_lay(state, units, capacity)
  redis.call('SET', state.key, string.rep('\0', LOG_HEADER) .. units)
  state.live = #units / LOG_NUMBER
  state.length, state.expired = state.live, 0
  state.capacity, state.next = capacity, state.live % capacity
end

-- log_live is the bytes of the units that count.
local function log_live(state)
  if state.live == 0 then return '' end
  return log_units(state, state.expired, state.live)
end

local sliding_window_log = {}

function sliding_window_log.read(key, now, limit)
  local state = {
    key = key, window = limit.window, capacity = 0, next = 0, length = 0, newest = 0, at = now, expired = 0, live = 0,
  }
  local header = redis.call('GETRANGE', key, 0, LOG_HEADER - 1)
  if header ~= '' then
    state.capacity, state.next = log_unpack(header, 1), log_unpack(header, 8)
    state.length, state.newest = log_unpack(header, 15), log_unpack(header, 22)
  end
  state.at = math.max(now, state.newest) -- the clock may have stepped back
  state.expired = log_before(state, state.at - state.window + 1)
  state.live = state.length - state.expired
  return state
end

function sliding_window_log.decide(state, now, limit, cost)
  local remaining, reset_after = math.max(0, limit.units - state.live), 0
  if state.live > 0 then reset_after = state.newest + state.window - now end
  local excess = state.live + cost - limit.units
  if excess <= 0 then return 1, remaining, reset_after, 0, 0 end
  if cost > limit.units then return 0, remaining, reset_after, NEVER, 0 end
  -- once the oldest excess units have left the window
  return 0, remaining, reset_after, log_time(state, state.expired + excess - 1) + state.window - now, 0
end

function sliding_window_log.spend(state, limit, cost)
  if state.capacity ~= limit.units then log_lay(state, log_live(state), limit.units) end
  local unit = log_pack(state.at)
  local straight = math.min(cost, state.capacity - state.next)
  redis.call('SETRANGE', state.key, LOG_HEADER + LOG_NUMBER * state.next, string.rep(unit, straight))
  if straight < cost then
    redis.call('SETRANGE', state.key, LOG_HEADER, string.rep(unit, cost - straight))
  end
  state.next = (state.next + cost) % state.capacity
  state.live = state.live + cost
  state.length, state.expired, state.newest = state.live, 0, state.at
  log_header(state)
  return state.newest + state.window
end

function sliding_window_log.refund(state, _, cost, at)
  local first = math.max(state.expired, log_before(state, at))
  local count = math.min(cost, log_before(state, at + 1) - first)
  if count <= 0 then return end
  if count == state.live then return redis.call('DEL', state.key) end
  local units, cut = log_live(state), LOG_NUMBER * (first - state.expired)
  units = string.sub(units, 1, cut) .. string.sub(units, cut + LOG_NUMBER * count + 1)
  log_lay(state, units, state.capacity)
  state.newest = log_unpack(units, #units - LOG_NUMBER + 1)
  log_header(state)
end
return sliding_window_log
end

local function load_sliding_window_counter()
-- SlidingWindowCounter: admits iff current + previous * (window - elapsed) / window + cost <= limit, where elapsed is
-- the time since the current window began; windows are aligned to the epoch. Everything but the weighted previous
-- count is whole, so comparing against its ceiling is comparing the real numbers.
-- The state is one string: "index current previous", index being the number of the current window since the epoch.
local sliding_window_counter = {}

function sliding_window_counter.read(key, now, limit)
  local window = limit.window
  local state = {key = key, window = window, index = 0, current = 0, previous = 0, start = 0, elapsed = 0, at = now}
  local stored = redis.call('GET', key)
  if stored then
    local index, current, previous = string.match(stored, '^(%d+) (%d+) (%d+)$')
    state.index, state.current, state.previous = tonumber(index), tonumber(current), tonumber(previous)
  end
  now = math.max(now, state.index * window) -- the clock may have stepped back
  local index = math.floor(now / window)
  if index == state.index + 1 then
    state.previous, state.current = state.current, 0
  elseif index > state.index then
    state.previous, state.current = 0, 0
  end
  state.index, state.start = index, index * window
  state.elapsed = now - state.start
  state.at = now
  return state
end

local function counter_used(state)
  local quotient, remainder = mul_div(state.previous, state.window - state.elapsed, state.window)
  if remainder > 0 then quotient = quotient + 1 end
  return state.current + quotient
end

-- counter_free is the instant from which on nothing counts any more, nil if nothing does.
local function counter_free(state)
  if state.current > 0 then return state.start + 2 * state.window end
  if state.previous > 0 then return state.start + state.window end
end

-- counter_weighs_at_most is the least elapsed time at which previous units weigh no more than most, which is less.
local function counter_weighs_at_most(previous, most, window)
  return window - (mul_div(most, window, previous))
end

-- counter_room is the first instant at which no more than most units are used, given that more are now.
local function counter_room(state, most)
  if state.current <= most then
    return state.start + counter_weighs_at_most(state.previous, most - state.current, state.window)
  end
  return state.start + state.window + counter_weighs_at_most(state.current, most, state.window)
end

function sliding_window_counter.decide(state, now, limit, cost)
  local used, free = counter_used(state), counter_free(state)
  local remaining, reset_after = math.max(0, limit.units - used), 0
  if free then reset_after = free - now end
  if used + cost <= limit.units then return 1, remaining, reset_after, 0, 0 end
  if cost > limit.units then return 0, remaining, reset_after, NEVER, 0 end
  return 0, remaining, reset_after, counter_room(state, limit.units - cost) - now, 0
end

local function counter_write(state)
  local free = counter_free(state)
  if not free then return redis.call('DEL', state.key) end
  local value = text(state.index) .. ' ' .. text(state.current) .. ' ' .. text(state.previous)
  redis.call('SET', state.key, value, 'PXAT', milliseconds(free))
  return free
end

function sliding_window_counter.spend(state, _, cost)
  state.current = state.current + cost
  return counter_write(state)
end

function sliding_window_counter.refund(state, limit, cost, at)
  local ago = state.index - math.floor(at / limit.window)
  if ago == 0 then
    state.current = math.max(0, state.current - cost)
  elseif ago == 1 then
    state.previous = math.max(0, state.previous - cost)
  else
    return
  end
  counter_write(state)
end
return sliding_window_counter
end

local function load_bucket()
-- TokenBucket and LeakyBucket share a meter: its level rises by the cost of what is admitted and sinks steadily by limit
-- units per window. A request is admitted iff the level plus its cost stay within the capacity. To a TokenBucket the
-- level is the tokens that are missing, and the capacity is burst; to a LeakyBucket it is the units that are still to
-- leave, a queue of burst and the one on its way out, and the time the level takes to sink is the wait of the next.
-- The state is one string: "at whole part ends"; the level was whole + part / window units at that instant (us), and
-- sinks to nothing when it ends (us): a limit that is lowered later does not put that off.
local bucket = {}

-- bucket_sink brings the level to now, never above the capacity: a burst that was lowered blocks no longer than it implies.
local function bucket_sink(state, now, limit)
  local elapsed = math.max(0, now - state.at) -- the clock may have stepped back
  state.at = state.at + elapsed
  local rest = math.fmod(elapsed, limit.window)
  local windows = (elapsed - rest) / limit.window
  local sunk, sunk_part = mul_div(limit.units, rest, limit.window)
  state.whole, state.part = state.whole - windows * limit.units - sunk, state.part - sunk_part
  if state.part < 0 then state.whole, state.part = state.whole - 1, state.part + limit.window end
  if state.whole < 0 then state.whole, state.part = 0, 0 end
  if state.whole >= limit.capacity then state.whole, state.part = limit.capacity, 0 end
end

-- bucket_used is the level rounded up.
local function bucket_used(state)
  if state.part > 0 then return state.whole + 1 end
  return state.whole
end

-- bucket_drain is how long the level takes to sink to most, which is not above it, at the limit's rate.
local function bucket_drain(state, limit, most)
  local quotient, remainder = mul_div(state.whole - most, limit.window, limit.units)
  return quotient + math.ceil((remainder + state.part) / limit.units)
end

-- bucket_drained is the instant at which the level has sunk to most.
local function bucket_drained(state, limit, most)
  return math.min(state.at + bucket_drain(state, limit, most), state.ends)
end

function bucket.read(key, now, limit)
  local state = {key = key, at = now, whole = 0, part = 0, ends = 0}
  local stored = redis.call('GET', key)
  if not stored then return state end
  local at, whole, part, ends = string.match(stored, '^(%d+) (%d+) (%d+) (%d+)$')
  state.at, state.whole, state.part, state.ends = tonumber(at), tonumber(whole), tonumber(part), tonumber(ends)
  if now >= state.ends then
    state.at, state.whole, state.part = now, 0, 0
  else
    bucket_sink(state, now, limit)
  end
  return state
end

function bucket.decide(state, now, limit, cost)
  local used, reset_after, delay = bucket_used(state), 0, 0
  local remaining = limit.capacity - used
  if used > 0 then reset_after = bucket_drained(state, limit, 0) - now end
  if used + cost <= limit.capacity then
    if limit.queues and cost > 0 then delay = reset_after end
    return 1, remaining, reset_after, 0, delay
  end
  if cost > limit.capacity then return 0, remaining, reset_after, NEVER, 0 end
  return 0, remaining, reset_after, bucket_drained(state, limit, limit.capacity - cost) - now, 0
end

local function bucket_write(state)
  if state.whole == 0 and state.part == 0 then return redis.call('DEL', state.key) end
  local value = text(state.at) .. ' ' .. text(state.whole) .. ' ' .. text(state.part) .. ' ' .. text(state.ends)
  redis.call('SET', state.key, value, 'PXAT', milliseconds(state.ends))
end

function bucket.spend(state, limit, cost)
  state.whole = state.whole + cost
  state.ends = state.at + bucket_drain(state, limit, 0)
  bucket_write(state)
  return state.ends
end

-- refund takes back what of the cost cannot have drained since: the whole units that are left of it at the least.
function bucket.refund(state, limit, cost, at)
  local spent = {at = at, whole = cost, part = 0}
  bucket_sink(spent, state.at, limit)
  if bucket_used(state) == 0 or spent.whole == 0 then return end
  state.whole = state.whole - spent.whole
  if state.whole < 0 then state.whole, state.part = 0, 0 end
  state.ends = bucket_drained(state, limit, 0)
  bucket_write(state)
end
return bucket
end

-- What the scripts that work on counters read from ARGV.

local LOADERS = {
  FixedWindow = load_fixed_window,
  SlidingWindowLog = load_sliding_window_log,
  SlidingWindowCounter = load_sliding_window_counter,
  TokenBucket = load_bucket,
  LeakyBucket = load_bucket,
}
local loaded = {}

-- algorithm_of returns the functions of an algorithm:
--   read(key, now, limit)             the state of a counter, at being its own time
--   decide(state, now, limit, cost)   allowed, remaining, reset after, retry after, delay; changes nothing
--   spend(state, limit, cost)         writes, and returns the instant at which the counter will be as new
--   refund(state, limit, cost, at)    writes
local function algorithm_of(name)
  local algorithm = loaded[name]
  if algorithm then return algorithm end
  if not LOADERS[name] then error('unknown algorithm ' .. name) end
  algorithm = LOADERS[name]()
  loaded[name] = algorithm
  return algorithm
end

-- instant is now in microseconds since the epoch, this server's own where the argument is empty.
local function instant(argument)
  if argument ~= '' then return tonumber(argument) end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- limit_at reads four arguments from ARGV[at] on: algorithm, limit (units), window (us), burst (units). It returns the
-- algorithm's functions and the limit.
local function limit_at(at)
  local limit = {units = tonumber(ARGV[at + 1]), window = tonumber(ARGV[at + 2]), capacity = tonumber(ARGV[at + 3])}
  if ARGV[at] == 'LeakyBucket' then
    limit.queues, limit.capacity = true, limit.capacity + 1 -- the queue and the unit on its way out
  end
  return algorithm_of(ARGV[at]), limit
end

-- spend decides requests, one after the other at one instant: all charges of a request or none.
--   KEYS                 the counters of the first request's charges, then of the second's, …; distinct within a request
--   ARGV[1]              now in microseconds since the epoch, or '' for this server's clock
--   then for each request
--     mode               'spend', or 'peek' to change nothing
--     count              of its charges
--     then for each charge: algorithm, limit (units), window (us), burst (units; of a bucket), cost (units),
--                        'enforce' or 'shadow'
-- Reply, six integers a charge: decided at (us since the epoch, by the counter's own time), allowed (1 or 0), remaining
-- (units), reset after (us), retry after (us; -1 for never), delay (us).
-- When every enforced charge of a request is allowed, they are counted, and with them its shadow charges that are allowed
-- themselves.
-- Must never happen: a write for a request of which an enforced charge is denied; a write on peek; a key without a time
-- to live.
local ARGUMENTS, INTEGERS = 6, 6

local now, reply = instant(ARGV[1]), {}

-- charge_at reads and decides the charge whose arguments begin at ARGV[at].
local function charge_at(at, key, out)
  local algorithm, limit = limit_at(at)
  local cost, state = tonumber(ARGV[at + 4]), algorithm.read(key, now, limit)
  local allowed, remaining, reset_after, retry_after, delay = algorithm.decide(state, now, limit, cost)
  reply[out + 1], reply[out + 2], reply[out + 3] = state.at, allowed, remaining
  reply[out + 4], reply[out + 5], reply[out + 6] = reset_after, retry_after, delay
  return {
    algorithm = algorithm, limit = limit, cost = cost, state = state, out = out,
    counts = allowed == 1 and cost > 0,
    denies = allowed == 0 and ARGV[at + 5] == 'enforce',
  }
end

-- count writes what was decided; spend answers when the counter will be as new.
local function count(charge)
  local out = charge.out
  reply[out + 3] = reply[out + 3] - charge.cost
  reply[out + 4] = charge.algorithm.spend(charge.state, charge.limit, charge.cost) - now
end

local at, key = 2, 0
while at < #ARGV do
  local charges, passes = {}, ARGV[at] == 'spend'
  local last = key + tonumber(ARGV[at + 1])
  at = at + 2
  while key < last do
    local charge = charge_at(at, KEYS[key + 1], INTEGERS * key)
    if charge.denies then passes = false end
    charges[#charges + 1] = charge
    key, at = key + 1, at + ARGUMENTS
  end
  if passes then
    for _, charge in ipairs(charges) do
      if charge.counts then count(charge) end
    end
  end
end
return reply
