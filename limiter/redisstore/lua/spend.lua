-- spend decides requests in sequence at one instant: it counts either all charges of a request or nothing.
--   KEYS      the counters of the charges of the first request, then of the second, …; distinct within a request. A compact
--             counter has the key of its block, or for a SlidingWindowCounter the keys of both
--   ARGV[1]   now in microseconds since the epoch, or '' to read the clock of this server
--   ARGV[2]   one character per request, the number of its shape: '0' for the first, and so on in ASCII order
--   ARGV[3]   the fields of the compact counters in their blocks, in the order of KEYS
--   ARGV[4]   'repeated' if requests have a counter in common, else ''
--   ARGV[5]…  the shapes. A shape is the arguments that requests with different keys share:
--     mode    'spend', or 'peek' to change nothing
--     count   number of charges
--     then for each charge: algorithm, limit (units), window (us), capacity (only for buckets,
--             see read_capacity), cost (units, see read_cost), 'enforce' or 'shadow'
-- Reply, integers: now (us since the epoch), and for each charge
--     4 * remaining (units) + 1 if it has a wait + 2 if it is ahead
--     reset after (us)
--     wait    absent if it is 0. The delay (us) of an allowed charge; the negative retry after (us) of a denied one, or NEVER
--     ahead   absent if it is 0. How far the counter's own time is ahead of now (us), because the clock stepped back
--   then for each charge on a counter that starts over, the index i of the charge in the call, from 0, if its value is corrupt,
--   or -1 - i if it is too far ahead, see load.lua
-- If all enforced charges of a request are allowed, they are counted, and so are its shadow charges that are allowed. A
-- debt is always counted.
-- Must never happen: a write for a request with a denied enforced charge, except of debts; a write on peek; a key without a
-- time to live.
local ARGUMENTS = 6
local FIRST_SHAPE = 48 -- '0'

if ARGV[4] == 'repeated' then written = {} end
local shapes, at, number = {}, 5, FIRST_SHAPE
while at <= #ARGV do
  local shape, count = {spends = ARGV[at] == 'spend'}, tonumber(ARGV[at + 1])
  at = at + 2
  for i = 1, count do
    shape[i] = read_charge(at)
    if ARGV[at + 5] == 'shadow' then shape[i].enforced = false end
    if shape[i].debt then shape.has_debt = true end
    at = at + ARGUMENTS
  end
  shapes[number] = shape
  number = number + 1
end

local are_read, index, corrupt = prefetch_values(), 0, {}

-- decide_absent returns what the function of the algorithm returns for a counter that does not exist: the same for all of them.
local function decide_absent(charge)
  local decision = charge.absent
  if not decision then
    decision = {charge.apply(false, now, charge)}
    charge.absent = decision
  end
  return unpack(decision, 1, 7)
end

-- The charges of a request with several of them: where their decisions are in the reply, and what is written if they are counted.
local keys, fields, firsts, next_values, expiries, keep_ttls = {}, {}, {}, {}, {}, {}

-- The loop has no functions of its own: they would take as long again, because locals of a script are slow in functions.
local shape_numbers = {byte(ARGV[2], 1, -1)}
for request = 1, #shape_numbers do
  local shape = shapes[shape_numbers[request]]
  local spends = shape.spends
  if are_read and #shape == 1 then -- as almost always: the same as below, without tables
    local charge, key, value = shape[1], KEYS[next_key], values[next_key]
    local last = written and written[key]
    if last ~= nil then value = last end
    if value == IN_PLACE then value = read_value(key) end
    index, next_key = index + 1, next_key + 1
    local wait, remaining, reset_after, at, next_value, expires_at, keep_ttl
    if value then
      wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = charge.apply(value, now, charge, key)
      if not wait then corrupt[#corrupt + 1] = remaining and -index or index - 1 end
    end
    if not wait then
      wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = decide_absent(charge)
    end
    if next_value and spends and charge.cost > 0 then
      if keep_ttl == IN_PLACE then
        write_value(key, next_value)
      else
        set(key, next_value, expires_at, keep_ttl)
      end
      remaining, reset_after = remaining - charge.cost, expires_at - now
      if remaining < 0 then remaining = 0 end
    end
    if wait == 0 and at == now then -- as add_decision
      reply[size + 1], reply[size + 2] = 4 * remaining, reset_after
      size = size + 2
    else
      add_decision(remaining, reset_after, wait, at)
    end
  else
    local counts = spends
    for i = 1, #shape do
      local charge, at_key, key, value, field, odd_key = shape[i], next_key, nil, nil, nil, nil
      index = index + 1
      if are_read then
        next_key = next_key + 1
        key = KEYS[at_key]
        value = written and written[key]
        if value == nil then value = values[at_key] end
        if value == IN_PLACE then value = read_value(key) end
      else
        at_key, field, odd_key = read_key(charge)
        key, value = KEYS[at_key], value_of(at_key, charge)
      end
      local wait, remaining, reset_after, at, next_value, expires_at, keep_ttl
      if value or not are_read then
        wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = charge.apply(value, now, charge, key, field, odd_key)
        if not wait then corrupt[#corrupt + 1] = remaining and -index or index - 1 end
      end
      if not wait and are_read then
        wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = decide_absent(charge)
      elseif not wait then
        wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = charge.apply(false, now, charge, key, field, odd_key)
      end
      keys[i], fields[i], firsts[i] = key, field, size + 1
      next_values[i], expiries[i], keep_ttls[i] = next_value, expires_at, keep_ttl
      if wait == 0 and at == now then -- as add_decision
        reply[size + 1], reply[size + 2] = 4 * remaining, reset_after
        size = size + 2
      else
        add_decision(remaining, reset_after, wait, at)
        if wait < 0 and charge.enforced then counts = false end
      end
    end
    if counts or spends and shape.has_debt then
      for i = 1, #shape do
        local charge, next_value = shape[i], next_values[i]
        local cost = charge.cost
        if next_value and cost > 0 and (counts or charge.debt) then
          local expires_at, first = expiries[i], firsts[i]
          if are_read and keep_ttls[i] ~= IN_PLACE then
            set(keys[i], next_value, expires_at, keep_ttls[i])
          else
            write_value(keys[i], next_value, expires_at, keep_ttls[i], fields[i])
          end
          local head = reply[first] - 4 * cost
          if head < 0 then head = head % 4 end -- nothing remains
          reply[first], reply[first + 1] = head, expires_at - now
        end
      end
    end
  end
end
for i = 1, #corrupt do reply[size + i] = corrupt[i] end
return reply
