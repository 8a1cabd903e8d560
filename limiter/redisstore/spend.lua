-- spend decides all charges of a request at one instant, all or nothing, and counts them.
--   KEYS[i]              the counter of charge i; keys are distinct
--   ARGV[1]              now in microseconds since the epoch, or '' for this server's clock
--   ARGV[2]              'spend', or 'peek' to change nothing
--   ARGV[3 + 6(i-1) ..]  algorithm, limit (units), window (us), burst (units; of a bucket), cost (units),
--                        'enforce' or 'shadow'
-- Reply, six integers a charge: decided at (us since the epoch, by the counter's own time), allowed (1 or 0), remaining
-- (units), reset after (us), retry after (us; -1 for never), delay (us).
-- When every enforced charge is allowed, they are counted, and with them the shadow charges that are allowed themselves.
-- Must never happen: a write when an enforced charge is denied; a write on peek; a key without a time to live.
local ARGUMENTS, INTEGERS = 6, 6

local now = instant(ARGV[1])
local charges, passes, reply = {}, ARGV[2] == 'spend', {}
for i, key in ipairs(KEYS) do
  local at, out = 3 + ARGUMENTS * (i - 1), INTEGERS * (i - 1)
  local algorithm, limit = limit_at(at)
  if not algorithm then return redis.error_reply('ERR unknown algorithm ' .. ARGV[at]) end
  local cost = tonumber(ARGV[at + 4])
  local state = algorithm.read(key, now, limit)
  local allowed, remaining, reset_after, retry_after, delay = algorithm.decide(state, now, limit, cost)
  if allowed == 0 and ARGV[at + 5] == 'enforce' then passes = false end
  charges[i] = {algorithm = algorithm, state = state, limit = limit, cost = cost, counts = allowed == 1 and cost > 0}
  reply[out + 1], reply[out + 2], reply[out + 3] = state.at, allowed, remaining
  reply[out + 4], reply[out + 5], reply[out + 6] = reset_after, retry_after, delay
end

if passes then
  for i, charge in ipairs(charges) do
    if charge.counts then
      charge.algorithm.spend(charge.state, charge.limit, charge.cost)
      local _, remaining, reset_after = charge.algorithm.decide(charge.state, now, charge.limit, 0)
      local out = INTEGERS * (i - 1)
      reply[out + 3], reply[out + 4] = remaining, reset_after
    end
  end
end
return reply
