-- refund refunds units that spend counted, if they still count.
--   KEYS                 the counters of the refunds, as in spend; distinct
--   ARGV[1]              now in microseconds since the epoch, or '' to read the clock of this server
--   ARGV[2]              channel on which the key of every refunded counter is published; '' to publish nothing
--   ARGV[3]              the fields of the compact counters in their blocks, as in spend
--   ARGV[4 + 6(i-1)]…    algorithm, limit (units), window (us), capacity (units; see spend), cost (units), and the time at
--                        which spend counted them: now plus ahead in its reply (us)
-- Reply: for each corrupt counter, the index of the refund, from 0. It keeps its value, and starts over when spend counts on it.
-- Must never happen: a refund of more units than count; a key without a time to live; a longer time to live than before.
local ARGUMENTS = 6

-- key_name returns the name of a counter in Go.
local function key_name(key, field)
  if not field then return key end
  local digits = string.gsub(field, '.', function(c) return string.format('%02x', byte(c)) end)
  return key .. '#' .. digits
end

local now, charges, reply = current_time(ARGV[1]), {}, {}
for at = 4, #ARGV, ARGUMENTS do charges[#charges + 1] = read_charge(at) end
prefetch_values()
for i, charge in ipairs(charges) do
  local spent_at = tonumber(ARGV[4 + ARGUMENTS * (i - 1) + 5])
  local at_key, field, odd_key = read_key(charge)
  local key = KEYS[at_key]
  if charge.cost > 0 then
    local value, expires_at, block = charge.apply(value_of(at_key, charge), now, charge, key, spent_at, field, odd_key)
    if value ~= false then
      write_value(key, value, expires_at, block, field)
    elseif expires_at then
      reply[#reply + 1] = i - 1
    end
    if ARGV[2] ~= '' then call('PUBLISH', ARGV[2], key_name(key, field)) end
  end
end
return reply
