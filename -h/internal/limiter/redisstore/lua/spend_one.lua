-- spend_one decides a request with one charge. It contains only the algorithm of that charge: for one charge, defining the functions of spend.lua
-- takes longer than everything else.
--   KEYS[1]   the counter
--   ARGV[1]   now in microseconds since the epoch, or '' to read the clock of this server
--   ARGV[2]   'spend', or 'peek' to change nothing
--   ARGV[3]   limit (units)
--   ARGV[4]   window (us)
--   ARGV[5]   cost (units)
--   ARGV[6]   debt, as in spend.lua
--   ARGV[7]   capacity (units); only of buckets
--   ARGV[8]   max delay (us); only of buckets whose charges can wait for their turn
-- Reply: that of spend.
-- Must never happen: a write for a denied charge that is no debt, or on peek; a key without a time to live.
local key, cost, debt = KEYS[1], ARGV[5] + 0, ARGV[6] -- adding 0 makes a number of it, and takes less time than tonumber
local charge = {
  units = ARGV[3] + 0, window = ARGV[4] + 0, capacity = ARGV[7] and ARGV[7] + 0, max_delay = ARGV[8] and ARGV[8] + 0,
  cost = cost, needed = debt == 'unit' and 1 or cost, is_debt = debt ~= '',
}

local problem
local wait, remaining, reset_after, at, next_value, expires_at, keep_ttl, append = step(read_value(key), now, charge, key)
if not wait then
  problem = remaining
  wait, remaining, reset_after, at, next_value, expires_at = step(false, now, charge, key)
end
if expires_at and cost > 0 and ARGV[2] == 'spend' then
  if append then
    append()
  elseif keep_ttl then
    call('SET', key, next_value, 'KEEPTTL')
  else
    call('SET', key, next_value, 'PXAT', to_milliseconds(expires_at))
  end
  remaining, reset_after = remaining - cost, expires_at - now
  if remaining < 0 then remaining = 0 end
end
-- The usual reply is made in one piece, without add_decision.
if wait == 0 and at == now and not problem then return {now, 4 * remaining, reset_after} end
