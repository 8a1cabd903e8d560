-- refund takes back what spend counted, as far as it still counts.
--   KEYS[i]              the counter of refund i; keys are distinct
--   ARGV[1]              now in microseconds since the epoch, or '' for this server's clock
--   ARGV[2 + 6(i-1) ..]  algorithm, limit (units), window (us), burst (units), cost (units), when spend said that it
--                        had decided (us)
-- Reply: 1.
-- Must never happen: more taken back than counts; a key without a time to live; a key that lives longer than before.
local ARGUMENTS = 6

local now = instant(ARGV[1])
for i, key in ipairs(KEYS) do
  local at = 2 + ARGUMENTS * (i - 1)
  local algorithm, limit = limit_at(at)
  if redis.call('EXISTS', key) == 1 then
    algorithm.refund(algorithm.read(key, now, limit), limit, tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5]))
  end
end
return 1
