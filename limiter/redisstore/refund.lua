-- refund refunds units that spend counted, if they still count.
--   KEYS[i]              the counter of refund i; keys are distinct
--   ARGV[1]              now in microseconds since the epoch, or '' to read the clock of this server
--   ARGV[2]              channel on which the key of every refunded counter is published; '' to publish nothing
--   ARGV[3 + 6(i-1)]…    algorithm, limit (units), window (us), capacity (units; see spend), cost (units), and the time at
--                        which spend counted them: now plus ahead in its reply (us)
-- Reply: for each corrupt counter, its index in KEYS, from 0. It keeps its value, and starts over when spend counts on it.
-- Must never happen: a refund of more units than count; a key without a time to live; a longer time to live than before.
local ARGUMENTS = 6

local now, charges, reply = current_time(ARGV[1]), {}, {}
for index = 1, #KEYS do charges[index] = read_charge(3 + ARGUMENTS * (index - 1)) end
prefetch_values()
for index, charge in ipairs(charges) do
  local spent_at = tonumber(ARGV[3 + ARGUMENTS * (index - 1) + 5])
  if charge.cost > 0 then
    local value, expires_at = charge.apply(value_of(index, charge), now, charge, KEYS[index], spent_at)
    if value ~= false then
      write_value(KEYS[index], value, expires_at)
    elseif expires_at then
      reply[#reply + 1] = index - 1
    end
    if ARGV[2] ~= '' then call('PUBLISH', ARGV[2], KEYS[index]) end
  end
end
return reply
