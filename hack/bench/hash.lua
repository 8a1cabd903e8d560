-- The hash limiter that articles describe: a window of 60 buckets. Each bucket is a field with a count.
-- KEYS[1]  the hash
-- ARGV[1]  now (ms since the epoch)    ARGV[2]  window (ms)    ARGV[3]  limit
-- Reply:   1 allowed, 0 denied
local BUCKETS = 60
local window = tonumber(ARGV[2])
local bucket = math.floor(tonumber(ARGV[1]) / (window / BUCKETS))
local fields, used, expired = redis.call('HGETALL', KEYS[1]), 0, {}
for i = 1, #fields, 2 do
  if tonumber(fields[i]) <= bucket - BUCKETS then
    expired[#expired + 1] = fields[i]
  else
    used = used + tonumber(fields[i + 1])
  end
end
if #expired > 0 then redis.call('HDEL', KEYS[1], unpack(expired)) end
if used < tonumber(ARGV[3]) then
  redis.call('HINCRBY', KEYS[1], bucket, 1)
  redis.call('EXPIRE', KEYS[1], math.ceil(window / 1000))
  return 1
end
return 0
