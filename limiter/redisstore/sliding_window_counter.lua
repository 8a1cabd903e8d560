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
