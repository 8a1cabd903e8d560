-- heartbeat records that a limiter replica is alive, by the clock of Redis, and removes replicas without recent heartbeats.
--
-- KEYS[1]  hash of the replicas of one limiter: id -> {"revision","time","mode","since","rejected","crowded","decided","format"}, time
--          and since in milliseconds since the epoch; without since, decided and format if they are unknown, without rejected and crowded if
--          they are empty
-- ARGV[1]  id of the replica
-- ARGV[2]  revision of the rule set that it enforces, "" if it has no rule set
-- ARGV[3]  mode in which it decides
-- ARGV[4]  age in milliseconds at which the entry of a replica is removed; the hash expires this long after the last
--          heartbeat
-- ARGV[5]  time when it entered that mode, by its own clock, in milliseconds since the epoch; 0 if unknown
-- ARGV[6]  why it rejects the published rule set, "" if it does not
-- ARGV[7]  JSON object of the policies whose new identifiers get no counter of their own, or soon will not; "" without such policies
-- ARGV[8]  compressed bitmap of the rules that have decided a request, in base64; "" if it is unknown
-- ARGV[9]  highest format of rule sets that it reads, 0 if it is unknown
-- ARGV[10] most entries of the hash
-- ARGV[11] most bytes of an entry, and of an id
-- ARGV[12] most bytes of all entries
-- Reply:   1
--
-- Another program can have written the key. If it has another type, more entries or more bytes than replicas write, it is removed: each replica
-- writes its entry again within a second.
--
-- Must never happen: an entry with a time from the clock of the replica, which may be wrong (except since, which decides
-- nothing); a hash without expiry; the decoding of an entry of any length.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local remove_after = tonumber(ARGV[4])

local entry = '{"revision":' .. cjson.encode(ARGV[2]) ..
  ',"time":' .. string.format('%.0f', now) ..
  ',"mode":' .. cjson.encode(ARGV[3])
local since = tonumber(ARGV[5])
if since ~= 0 then
  entry = entry .. ',"since":' .. string.format('%.0f', since)
end
if ARGV[6] ~= '' then
  entry = entry .. ',"rejected":' .. cjson.encode(ARGV[6])
end
if ARGV[7] ~= '' then
  entry = entry .. ',"crowded":' .. ARGV[7]
end
if ARGV[8] ~= '' then
  entry = entry .. ',"decided":' .. cjson.encode(ARGV[8])
end
if ARGV[9] ~= '0' then
  entry = entry .. ',"format":' .. ARGV[9]
end
entry = entry .. '}'
local count = redis.pcall('HLEN', KEYS[1])
if type(count) == 'table' and not string.find(count.err, 'WRONGTYPE', 1, true) then
  return count
end
if type(count) == 'table' or count > tonumber(ARGV[10]) then
  redis.call('UNLINK', KEYS[1])
end
redis.call('HSET', KEYS[1], ARGV[1], entry)

-- If the clock stepped back, entries can be in the future. They are removed at the same distance from now as past ones.
local all, bytes, longest = redis.call('HGETALL', KEYS[1]), 0, tonumber(ARGV[11])
for i = 1, #all, 2 do
  local valid, replica = #all[i] <= longest and #all[i + 1] <= longest
  if valid then
    valid, replica = pcall(cjson.decode, all[i + 1])
    valid = valid and type(replica) == 'table' and type(replica.time) == 'number' and math.abs(now - replica.time) <= remove_after
  end
  if valid then
    bytes = bytes + #all[i] + #all[i + 1]
  else
    redis.call('HDEL', KEYS[1], all[i])
  end
end
if bytes > tonumber(ARGV[12]) then
  redis.call('UNLINK', KEYS[1])
  redis.call('HSET', KEYS[1], ARGV[1], entry)
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
