-- refund takes back what spend counted, as far as it still counts.
--   KEYS[i]              the counter of refund i; keys are distinct
--   ARGV[1]              now in microseconds since the epoch, or '' for this server's clock
--   ARGV[2]              a channel that is told every key of which something is taken back, or '' for none
--   ARGV[3 + 6(i-1) ..]  algorithm, limit (units), window (us), burst (units), cost (units), when spend said that it
--                        had decided (us)
-- Reply: 1.
-- Must never happen: more taken back than counts; a key without a time to live; a key that lives longer than before.
local ARGUMENTS = 6

local now, charges = instant(ARGV[1]), {}
for place = 1, #KEYS do charges[place] = charge_at(3 + ARGUMENTS * (place - 1)) end
read_values()
for place, charge in ipairs(charges) do
  local at = tonumber(ARGV[3 + ARGUMENTS * (place - 1) + 5])
  if charge.cost > 0 then
    local value, free = charge.work(value_of(place, charge), now, charge, KEYS[place], at)
    if value ~= false then write(KEYS[place], value, free) end
    if ARGV[2] ~= '' then call('PUBLISH', ARGV[2], KEYS[place]) end
  end
end
return 1
