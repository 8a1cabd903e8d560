-- replicas lists the heartbeats of one limiter together with the time they are to be judged by.
--
-- KEYS[1]  hash of one limiter's replicas, as beat.lua writes it
-- Reply:   {now, id, entry, id, entry, …}; now is Redis's clock in milliseconds since the epoch, as text
--
-- Must never happen: a write; judging heartbeats by another clock than the one that stamped them.
local time = redis.call('TIME')
local reply = redis.call('HGETALL', KEYS[1])
table.insert(reply, 1, string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
return reply
