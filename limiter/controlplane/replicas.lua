-- replicas returns the heartbeats of one limiter together with the time of Redis, which decides which ones are too old.
--
-- KEYS[1]  hash of the replicas of one limiter, which heartbeat.lua writes
-- Reply:   {now, id, entry, id, entry, …}; now is the time of Redis in milliseconds since the epoch, as text
--
-- Must never happen: a write; a time from another clock than the one that heartbeat.lua reads.
local time = redis.call('TIME')
local reply = redis.call('HGETALL', KEYS[1])
table.insert(reply, 1, string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
return reply
