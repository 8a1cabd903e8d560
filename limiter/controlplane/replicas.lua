-- replicas returns the heartbeats of one limiter together with the time of Redis, which decides which ones are too old.
--
-- KEYS[1]  hash of the replicas of one limiter, which heartbeat.lua writes
-- ARGV[1]  most entries of the hash
-- ARGV[2]  most bytes of an entry, and of an id
-- ARGV[3]  most bytes of all entries
-- Reply:   {now, id, entry, id, entry, …}; now is the time of Redis in milliseconds since the epoch, as text. A key of another type, or with
--          too many entries, has no entries: the next heartbeat replaces it. Longer entries are left out, and all entries after too many bytes
--
-- Must never happen: a write; a time from another clock than the one that heartbeat.lua reads; a reply of any length, because another program
-- can write to the hash.
local time = redis.call('TIME')
local reply = {string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))}
local count = redis.pcall('HLEN', KEYS[1])
if type(count) == 'table' then
  if not string.find(count.err, 'WRONGTYPE', 1, true) then
    return count
  end
  return reply
end
if count > tonumber(ARGV[1]) then
  return reply
end
local all, longest, bytes = redis.call('HGETALL', KEYS[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
for i = 1, #all, 2 do
  if #all[i] <= longest and #all[i + 1] <= longest then
    bytes = bytes - #all[i] - #all[i + 1]
    if bytes < 0 then
      break
    end
    reply[#reply + 1] = all[i]
    reply[#reply + 1] = all[i + 1]
  end
end
return reply
