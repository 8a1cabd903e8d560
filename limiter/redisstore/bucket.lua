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
