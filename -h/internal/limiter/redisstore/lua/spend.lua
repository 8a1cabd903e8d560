-- spend decides requests in sequence at one instant: it counts either all charges of a request or nothing.
--   KEYS      the counters of the charges of the first request, then of the second, …; distinct within a request
--   ARGV[1]   now in microseconds since the epoch, or '' to read the clock of this server
--   ARGV[2]   one character per request, the number of its shape: '0' for the first, and so on in ASCII order
--   ARGV[3]   'repeated' if requests have a counter in common, else ''
--   ARGV[4]   'logs' if a counter is a log, else ''
--   ARGV[5]…  the shapes. A shape is the arguments that requests with different keys share:
--     mode    'spend', or 'peek' to change nothing
--     count   number of charges
--     then for each charge:
--       algorithm
--       limit     units
--       window    us
--       capacity  units; only of buckets, else ''
--       max delay us; only of buckets whose charges can wait for their turn, else ''
--       cost      units
--       debt      '', or for a charge that is counted even if it is denied, which units must remain so that it is allowed: 'unit' or 'whole'
--       'enforce' or 'shadow'
-- Reply, integers: now (us since the epoch), and for each charge
--     4 * remaining (units) + 1 if it has a wait + 2 if it is ahead
--     reset after (us)
--     wait    absent if it is 0. The delay (us) of an allowed charge; the negative retry after (us) of a denied one, or NEVER
--     ahead   absent if it is 0. How far the counter's own time is ahead of now (us), because the clock stepped back
--   then for each charge on a counter that starts over, the index i of the charge in the call, from 0, if its value is corrupt,
--   or -1 - i if it is too far ahead, see charge.lua
-- If all enforced charges of a request are allowed, they are counted, and so are its shadow charges that are allowed. A
-- debt is always counted.
-- Must never happen: a write for a request with a denied enforced charge, except of debts; a write on peek; a key without a
-- time to live.
local shapes, shape_numbers = read_shapes(5, 8), {byte(ARGV[2], 1, -1)}

-- written has the values that were written, by key. It exists only if a key is read after it was written: a new element of a table takes as long
-- as 20 operations.
local written = ARGV[3] == 'repeated' and {}
local before, problems = 0, {} -- the number of charges of the requests before

-- What is known about the charges of a request with several until all of them are decided: where their decisions are in the reply, and what to
-- write.
local firsts, next_values, expiries, keep_ttls, appends, news = {}, {}, {}, {}, {}, {}

-- The time of the last SET, in microseconds and in milliseconds. Mostly, many counters expire at the same time.
local last_expiry, last_milliseconds

-- write writes what step returned. is_new is the index of the charge if its key had no value. If the key exists nevertheless, it is not a string.
local function write(key, value, expires_at, keep_ttl, append, is_new)
  if append then
    append()
    value = written and read_value(key)
  elseif keep_ttl then
    call('SET', key, value, 'KEEPTTL')
  else
    if expires_at ~= last_expiry then last_expiry, last_milliseconds = expires_at, to_milliseconds(expires_at) end
    if not is_new then
      call('SET', key, value, 'PXAT', last_milliseconds)
    elseif not call('SET', key, value, 'PXAT', last_milliseconds, 'NX') then
      problems[#problems + 1] = is_new - 1
      call('SET', key, value, 'PXAT', last_milliseconds)
    end
  end
  if written then written[key] = value end
end

-- The loop is in no function: locals of a script are slow in functions.
for request = 1, #shape_numbers do
  local shape = shapes[shape_numbers[request]]
  local count, counts = #shape, shape.spends
  for i = 1, count do
    local charge, index = shape[i], before + i
    local key, value = KEYS[index], values[index]
    if written then value = written[key] or value end
    local wait, remaining, reset_after, at, next_value, expires_at, keep_ttl, append
    if value then
      wait, remaining, reset_after, at, next_value, expires_at, keep_ttl, append = charge.step(value, now, charge, key)
      if not wait then
        local problem = remaining
        problems[#problems + 1] = problem == 'ahead' and -index or index - 1
      end
    end
    if not wait then -- the counter does not exist, or starts over: the decision is the same for all of them
      local decision = charge.absent
      if not decision then
        decision = {charge.step(false, now, charge, key)}
        charge.absent = decision
      end
      wait, remaining, reset_after, at, next_value, expires_at = unpack(decision, 1, 6)
    end
    if count > 1 then
      firsts[i], next_values[i], expiries[i], keep_ttls[i], appends[i] = size + 1, next_value, expires_at, keep_ttl, append
      news[i] = not value and index
    elseif expires_at and counts and charge.cost > 0 then -- alone, as mostly: nothing else decides whether it is counted
      write(key, next_value, expires_at, keep_ttl, append, not value and index)
      remaining, reset_after = remaining - charge.cost, expires_at - now
      if remaining < 0 then remaining = 0 end
    end
    if wait == 0 and at == now then -- as add_decision
      reply[size + 1], reply[size + 2] = 4 * remaining, reset_after
      size = size + 2
    else
      add_decision(remaining, reset_after, wait, at)
      if wait < 0 and charge.enforced then counts = false end
    end
  end
  if count > 1 and (counts or shape.spends and shape.has_debt) then
    for i = 1, count do
      local charge, expires_at = shape[i], expiries[i]
      if expires_at and charge.cost > 0 and (counts or charge.is_debt) then
        write(KEYS[before + i], next_values[i], expires_at, keep_ttls[i], appends[i], news[i])
        local first = firsts[i]
        local head = reply[first] - 4 * charge.cost
        if head < 0 then head = head % 4 end -- nothing remains
        reply[first], reply[first + 1] = head, expires_at - now
      end
    end
  end
  before = before + count
end
for i = 1, #problems do reply[size + i] = problems[i] end
return reply
