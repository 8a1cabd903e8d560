-- spend decides requests, one after the other at one instant: all charges of a request or none.
--   KEYS      the counters of the first request's charges, then of the second's, …; distinct within a request
--   ARGV[1]   now in microseconds since the epoch, or '' for this server's clock
--   ARGV[2]   one character a request, the number of its shape: '0' the first, then as ASCII goes on
--   then the shapes, what requests have in common but for their keys, of each
--     mode    'spend', or 'peek' to change nothing
--     count   of its charges
--     then for each charge: algorithm, limit (units), window (us), capacity (units; of a
--             bucket; negative of a LeakyBucket that admits at once or not at all), cost (units),
--             'enforce' or 'shadow'
-- Reply, integers: now (us since the epoch), and for each charge
--     ahead   of now the counter's own time is (us), after a clock that stepped back
--     remaining (units), reset after (us)
--     wait    the delay (us) of a charge that is allowed; of one that is not, negative, its retry after, or NEVER
-- When every enforced charge of a request is allowed, they are counted, and with them its shadow charges that are allowed
-- themselves.
-- Must never happen: a write for a request of which an enforced charge is denied; a write on peek; a key without a time
-- to live.
local ARGUMENTS, INTEGERS = 6, 4
local FIRST_SHAPE = 48 -- '0'

local shapes, at = {}, 3
while at <= #ARGV do
  local shape, count = {spends = ARGV[at] == 'spend'}, tonumber(ARGV[at + 1])
  at = at + 2
  for i = 1, count do
    shape[i] = charge_at(at)
    if ARGV[at + 5] == 'shadow' then shape[i].enforced = false end
    at = at + ARGUMENTS
  end
  shapes[#shapes + 1] = shape
end

local now, place = instant(ARGV[1]), 0
local reply = {now}
read_values()

-- count writes what was decided of KEYS[place].
local function count(place, cost, value, free, kept)
  if type(value) == 'function' then
    value()
  else
    write(KEYS[place], value, free, kept)
  end
  local out = INTEGERS * place
  reply[out - 1], reply[out] = reply[out - 1] - cost, free - now
end

local next_values, frees, kepts = {}, {}, {}
for request = 1, #ARGV[2] do
  local shape = shapes[byte(ARGV[2], request) - FIRST_SHAPE + 1]
  local passes, first = shape.spends, place
  for i = 1, #shape do
    local charge = shape[i]
    place = place + 1
    local wait, remaining, reset_after, at
    wait, remaining, reset_after, at, next_values[i], frees[i], kepts[i] =
      charge.work(value_of(place, charge), now, charge, KEYS[place])
    local out = INTEGERS * place - 2
    reply[out], reply[out + 1], reply[out + 2], reply[out + 3] = at - now, remaining, reset_after, wait
    if wait < 0 and charge.enforced then passes = false end
  end
  if passes then
    for i = 1, #shape do
      local cost = shape[i].cost
      if next_values[i] and cost > 0 then count(first + i, cost, next_values[i], frees[i], kepts[i]) end
    end
  end
end
return reply
