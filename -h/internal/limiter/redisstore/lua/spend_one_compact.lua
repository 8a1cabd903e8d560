-- spend_one_compact decides a request with one charge on a compact counter. It contains only the algorithm of that charge.
--   KEYS      the key of the block, or of the block for even windows and of that for odd windows
--   ARGV[1]   now … ARGV[6] debt, as in spend_one.lua
--   ARGV[7]   the field of the counter
-- Reply: that of spend.
-- Must never happen: a write for a denied charge that is no debt, or on peek; a block without a time to live.
local window, cost, debt, field = ARGV[4] + 0, ARGV[5] + 0, ARGV[6], ARGV[7]
local charge = {units = ARGV[3] + 0, window = window, cost = cost, needed = debt == 'unit' and 1 or cost, is_debt = debt ~= ''}

local value, block, problem = read_counter(now, window, field, KEYS[1], KEYS[2])
local wait, remaining, reset_after, at, next_value, expires_at, keep_ttl = step(value, now, charge)
if not wait then
  problem = remaining
  wait, remaining, reset_after, at, next_value, expires_at = step(false, now, charge)
end
if expires_at and cost > 0 and ARGV[2] == 'spend' then
  write_counter(next_value, keep_ttl, now, window, field, KEYS[1], KEYS[2], block)
  remaining, reset_after = remaining - cost, expires_at - now
  if remaining < 0 then remaining = 0 end
end
-- The usual reply is made in one piece, without add_decision.
if wait == 0 and at == now and not problem then return {now, 4 * remaining, reset_after} end
