-- beat notes that a limiter replica is alive, by the clock of Redis, and drops the entries of replicas long silent.
--
-- KEYS[1]  hash of one limiter's replicas: id -> {"revision","time","mode","since"}, time and since in milliseconds since
--          the epoch; no since where that is not known
-- ARGV[1]  id of the replica
-- ARGV[2]  revision of the rule set it enforces, "" for none
-- ARGV[3]  mode it decides in
-- ARGV[4]  age in milliseconds from which a silent replica's entry is dropped; the whole hash expires as long after
--          the last beat
-- ARGV[5]  since when it is in that mode, by its own clock, in milliseconds since the epoch; 0 if that is not known
-- Reply:   1
--
-- Must never happen: an entry stamped by the replica's own clock, which may be wrong, since aside, which nothing is
-- judged by; a hash without expiry.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local forget = tonumber(ARGV[4])

local entry = '{"revision":' .. cjson.encode(ARGV[2]) ..
  ',"time":' .. string.format('%.0f', now) ..
  ',"mode":' .. cjson.encode(ARGV[3])
local since = tonumber(ARGV[5])
if since ~= 0 then
  entry = entry .. ',"since":' .. string.format('%.0f', since)
end
entry = entry .. '}'
redis.call('HSET', KEYS[1], ARGV[1], entry)

-- A clock that stepped back leaves entries from the future: as far off, they are as dead as those of the past.
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local ok, replica = pcall(cjson.decode, all[i + 1])
  local known = ok and type(replica) == 'table' and type(replica.time) == 'number'
  if not known or math.abs(now - replica.time) > forget then
    redis.call('HDEL', KEYS[1], all[i])
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
