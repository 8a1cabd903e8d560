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
