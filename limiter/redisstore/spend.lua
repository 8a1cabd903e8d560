-- spend decides requests, one after the other at one instant: all charges of a request or none.
--   KEYS                 the counters of the first request's charges, then of the second's, …; distinct within a request
--   ARGV[1]              now in microseconds since the epoch, or '' for this server's clock
--   then for each request
--     mode               'spend', or 'peek' to change nothing
--     count              of its charges
--     then for each charge: algorithm, limit (units), window (us), burst (units; of a bucket), cost (units),
--                        'enforce' or 'shadow'
-- Reply, six integers a charge: decided at (us since the epoch, by the counter's own time), allowed (1 or 0), remaining
-- (units), reset after (us), retry after (us; -1 for never), delay (us).
-- When every enforced charge of a request is allowed, they are counted, and with them its shadow charges that are allowed
-- themselves.
-- Must never happen: a write for a request of which an enforced charge is denied; a write on peek; a key without a time
-- to live.
local ARGUMENTS, INTEGERS = 6, 6

local now, reply = instant(ARGV[1]), {}

-- charge_at reads and decides the charge whose arguments begin at ARGV[at].
local function charge_at(at, key, out)
  local algorithm, limit = limit_at(at)
  local cost, state = tonumber(ARGV[at + 4]), algorithm.read(key, now, limit)
  local allowed, remaining, reset_after, retry_after, delay = algorithm.decide(state, now, limit, cost)
  reply[out + 1], reply[out + 2], reply[out + 3] = state.at, allowed, remaining
  reply[out + 4], reply[out + 5], reply[out + 6] = reset_after, retry_after, delay
  return {
    algorithm = algorithm, limit = limit, cost = cost, state = state, out = out,
    counts = allowed == 1 and cost > 0,
    denies = allowed == 0 and ARGV[at + 5] == 'enforce',
  }
end

-- count writes what was decided; spend answers when the counter will be as new.
local function count(charge)
  local out = charge.out
  reply[out + 3] = reply[out + 3] - charge.cost
  reply[out + 4] = charge.algorithm.spend(charge.state, charge.limit, charge.cost) - now
end

local at, key = 2, 0
while at < #ARGV do
  local charges, passes = {}, ARGV[at] == 'spend'
  local last = key + tonumber(ARGV[at + 1])
  at = at + 2
  while key < last do
    local charge = charge_at(at, KEYS[key + 1], INTEGERS * key)
    if charge.denies then passes = false end
    charges[#charges + 1] = charge
    key, at = key + 1, at + ARGUMENTS
  end
  if passes then
    for _, charge in ipairs(charges) do
      if charge.counts then count(charge) end
    end
  end
end
return reply
