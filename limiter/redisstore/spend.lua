-- spend decides all charges of a request at one instant, all or nothing, and counts them.
--   KEYS[i]              the counter of charge i; keys are distinct
--   ARGV[1]              now in microseconds since the epoch, or '' for this server's clock
--   ARGV[2]              'spend', or 'peek' to change nothing
--   ARGV[3 + 6(i-1) ..]  algorithm, limit (units), window (us), burst (units; of a bucket), cost (units),
--                        'enforce' or 'shadow'
-- Reply, five integers a charge: allowed (1 or 0), remaining (units), reset after (us), retry after (us; -1 for never),
-- delay (us).
-- When every enforced charge is allowed, they are counted, and with them the shadow charges that are allowed themselves.
-- Must never happen: a write when an enforced charge is denied; a write on peek; a key without a time to live.
local ARGUMENTS, INTEGERS = 6, 5

local ALGORITHMS = {
  FixedWindow = fixed_window,
  SlidingWindowLog = sliding_window_log,
  SlidingWindowCounter = sliding_window_counter,
  TokenBucket = bucket,
  LeakyBucket = bucket,
}

local function limit_of(algorithm, units, window, burst)
  local limit = {units = units, window = window, capacity = burst, queues = algorithm == 'LeakyBucket'}
  if limit.queues then limit.capacity = burst + 1 end -- the queue and the unit on its way out
  return limit
end

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local charges, passes, reply = {}, ARGV[2] == 'spend', {}
for i, key in ipairs(KEYS) do
  local at, out = 3 + ARGUMENTS * (i - 1), INTEGERS * (i - 1)
  local algorithm = ALGORITHMS[ARGV[at]]
  if not algorithm then return redis.error_reply('ERR unknown algorithm ' .. ARGV[at]) end
  local limit = limit_of(ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]))
  local cost = tonumber(ARGV[at + 4])
  local state = algorithm.read(key, now, limit)
  local allowed, remaining, reset_after, retry_after, delay = algorithm.decide(state, now, limit, cost)
  if allowed == 0 and ARGV[at + 5] == 'enforce' then passes = false end
  charges[i] = {algorithm = algorithm, state = state, limit = limit, cost = cost, counts = allowed == 1 and cost > 0}
  reply[out + 1], reply[out + 2], reply[out + 3] = allowed, remaining, reset_after
  reply[out + 4], reply[out + 5] = retry_after, delay
end

if passes then
  for i, charge in ipairs(charges) do
    if charge.counts then
      charge.algorithm.spend(charge.state, charge.limit, charge.cost)
      local _, remaining, reset_after = charge.algorithm.decide(charge.state, now, charge.limit, 0)
      local out = INTEGERS * (i - 1)
      reply[out + 2], reply[out + 3] = remaining, reset_after
    end
  end
end
return reply
