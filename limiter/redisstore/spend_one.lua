-- spend_one decides one charge under one algorithm: spend for who comes alone.
--   KEYS[1]   the counter
--   ARGV      now in microseconds since the epoch, or '' for this server's clock; 'spend', or 'peek' to change nothing;
--             algorithm, limit (units), window (us), burst (units; of a bucket), cost (units)
-- Reply: that of spend.
-- Must never happen: a write when it is denied, or on peek; a key without a time to live.
local key, now, name = KEYS[1], ARGV[1], ARGV[3]
if now == '' then
  now = call('TIME')
  now = now[1] * 1000000 + now[2]
else
  now = tonumber(now)
end
local charge = {
  units = tonumber(ARGV[4]), window = tonumber(ARGV[5]), capacity = tonumber(ARGV[6]), cost = tonumber(ARGV[7]),
}
if name == 'LeakyBucket' then
  charge.queues, charge.capacity = true, charge.capacity + 1 -- the queue and the unit on its way out
end

local value
if READS_WHOLE then value = call('MGET', key)[1] end
local wait, remaining, reset_after, at, next_value, free, kept = step(value, now, charge, key)
if next_value and charge.cost > 0 and ARGV[2] == 'spend' then
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
