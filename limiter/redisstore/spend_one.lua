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
