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
