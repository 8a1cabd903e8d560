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
