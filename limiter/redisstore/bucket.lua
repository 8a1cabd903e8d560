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
