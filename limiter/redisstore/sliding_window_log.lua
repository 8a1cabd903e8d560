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
