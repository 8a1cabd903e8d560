-- What the scripts that work on counters read from ARGV.

local ALGORITHMS = {
  FixedWindow = fixed_window,
  SlidingWindowLog = sliding_window_log,
  SlidingWindowCounter = sliding_window_counter,
  TokenBucket = bucket,
  LeakyBucket = bucket,
}

-- instant is now in microseconds since the epoch, this server's own where the argument is empty.
local function instant(argument)
  if argument ~= '' then return tonumber(argument) end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- limit_at reads four arguments from ARGV[at] on: algorithm, limit (units), window (us), burst (units). It returns the
-- algorithm's functions, nil for one that is unknown, and the limit.
local function limit_at(at)
  local limit = {units = tonumber(ARGV[at + 1]), window = tonumber(ARGV[at + 2]), capacity = tonumber(ARGV[at + 3])}
  if ARGV[at] == 'LeakyBucket' then
    limit.queues, limit.capacity = true, limit.capacity + 1 -- the queue and the unit on its way out
  end
  return ALGORITHMS[ARGV[at]], limit
end
