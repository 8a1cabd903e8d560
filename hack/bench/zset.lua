-- The sorted-set limiter that articles describe: a sliding window log with one member per admitted request.
-- KEYS[1]  the set
-- ARGV[1]  now (ms since the epoch)    ARGV[2]  window (ms)    ARGV[3]  limit    ARGV[4]  a unique member
-- Reply:   1 allowed, 0 denied
local now, window = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
if redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('ZADD', KEYS[1], now, ARGV[4])
  redis.call('EXPIRE', KEYS[1], math.ceil(window / 1000))
  return 1
end
return 0
