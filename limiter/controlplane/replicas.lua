-- replicas returns the heartbeats of one limiter together with the time of Redis, which decides which ones are too old.
--
-- KEYS[1]  hash of the replicas of one limiter, which heartbeat.lua writes
-- Reply:   {now, id, entry, id, entry, …}; now is the time of Redis in milliseconds since the epoch, as text. A key of another type has no
--          entries: the next heartbeat replaces it
--
-- Must never happen: a write; a time from another clock than the one that heartbeat.lua reads.
local time = redis.call('TIME')
local reply = redis.pcall('HGETALL', KEYS[1])
if reply.err then
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then
    return reply
  end
  reply = {}
end
table.insert(reply, 1, string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
return reply
