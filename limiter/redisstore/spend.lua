-- spend decides requests in sequence at one instant: it counts either all charges of a request or nothing.
--   KEYS      the counters of the charges of the first request, then of the second, …; distinct within a request. A compact
--             counter has the key of its block, or for a SlidingWindowCounter the keys of both
--   ARGV[1]   now in microseconds since the epoch, or '' to read the clock of this server
--   ARGV[2]   one character per request, the number of its shape: '0' for the first, and so on in ASCII order
--   ARGV[3]   the fields of the compact counters in their blocks, in the order of KEYS
--   ARGV[4]…  the shapes. A shape is the arguments that requests with different keys share:
--     mode    'spend', or 'peek' to change nothing
--     count   number of charges
--     then for each charge: algorithm, limit (units), window (us), capacity (only for buckets,
--             see read_capacity), cost (units, see read_cost), 'enforce' or 'shadow'
-- Reply, integers: now (us since the epoch), and for each charge
--     ahead   how far the counter's own time is ahead of now (us); not 0 only if the clock stepped back
--     remaining (units), reset after (us)
--     wait    the delay (us) of an allowed charge; the negative retry after (us) of a denied one, or NEVER
--   then for each charge on a corrupt counter, which starts over, the index of the charge in the call, from 0
-- If all enforced charges of a request are allowed, they are counted, and so are its shadow charges that are allowed. A
-- debt is always counted.
-- Must never happen: a write for a request with a denied enforced charge, except of debts; a write on peek; a key without a
-- time to live.
local ARGUMENTS, INTEGERS = 6, 4
local FIRST_SHAPE = 48 -- '0'

local shapes, at = {}, 4
while at <= #ARGV do
  local shape, count = {spends = ARGV[at] == 'spend'}, tonumber(ARGV[at + 1])
  at = at + 2
  for i = 1, count do
    shape[i] = read_charge(at)
    if ARGV[at + 5] == 'shadow' then shape[i].enforced = false end
    shape.has_debts = shape.has_debts or shape.spends and shape[i].debt
    at = at + ARGUMENTS
  end
  shapes[#shapes + 1] = shape
end

local now, index = current_time(ARGV[1]), 0
local reply = {now}
prefetch_values()

-- count_charge writes the next value of a charge, and updates its remaining and reset after in the reply.
local function count_charge(index, key, cost, next_value, expires_at, keep_ttl, field)
  write_value(key, next_value, expires_at, keep_ttl, field)
  local out = INTEGERS * index
  reply[out - 1], reply[out] = max(0, reply[out - 1] - cost), expires_at - now
end

local keys, fields, next_values, expiries, keep_ttls, corrupt = {}, {}, {}, {}, {}, {}
for request = 1, #ARGV[2] do
  local shape = shapes[byte(ARGV[2], request) - FIRST_SHAPE + 1]
  local counts, first = shape.spends, index
  for i = 1, #shape do
    local charge = shape[i]
    index = index + 1
    local at_key, field, odd_key = read_key(charge)
    local key = KEYS[at_key]
    keys[i], fields[i] = key, field
    local wait, remaining, reset_after, at
    wait, remaining, reset_after, at, next_values[i], expiries[i], keep_ttls[i] =
      charge.apply(value_of(at_key, charge), now, charge, key, field, odd_key)
    if not wait then
      corrupt[#corrupt + 1] = index - 1
      wait, remaining, reset_after, at, next_values[i], expiries[i], keep_ttls[i] =
        charge.apply(false, now, charge, key, field, odd_key)
    end
    local out = INTEGERS * index - 2
    reply[out], reply[out + 1], reply[out + 2], reply[out + 3] = at - now, remaining, reset_after, wait
    if wait < 0 and charge.enforced then counts = false end
  end
  if counts or shape.has_debts then
    for i = 1, #shape do
      local cost = shape[i].cost
      if next_values[i] and cost > 0 and (counts or shape[i].debt) then
        count_charge(first + i, keys[i], cost, next_values[i], expiries[i], keep_ttls[i], fields[i])
      end
    end
  end
end
for i = 1, #corrupt do reply[#reply + 1] = corrupt[i] end
return reply
