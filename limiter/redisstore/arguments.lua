-- What the scripts that work on counters read from ARGV.

local LOADERS = {
  FixedWindow = load_fixed_window,
  SlidingWindowLog = load_sliding_window_log,
  SlidingWindowCounter = load_sliding_window_counter,
  TokenBucket = load_bucket,
  LeakyBucket = load_bucket,
}
local loaded = {}

-- algorithm_of returns the functions of an algorithm:
--   read(key, now, limit)             the state of a counter, at being its own time
--   decide(state, now, limit, cost)   allowed, remaining, reset after, retry after, delay; changes nothing
--   spend(state, limit, cost)         writes, and returns the instant at which the counter will be as new
--   refund(state, limit, cost, at)    writes
local function algorithm_of(name)
  local algorithm = loaded[name]
  if algorithm then return algorithm end
  if not LOADERS[name] then error('unknown algorithm ' .. name) end
  algorithm = LOADERS[name]()
  loaded[name] = algorithm
  return algorithm
end

-- instant is now in microseconds since the epoch, this server's own where the argument is empty.
local function instant(argument)
  if argument ~= '' then return tonumber(argument) end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- limit_at reads four arguments from ARGV[at] on: algorithm, limit (units), window (us), burst (units). It returns the
-- algorithm's functions and the limit.
local function limit_at(at)
  local limit = {units = tonumber(ARGV[at + 1]), window = tonumber(ARGV[at + 2]), capacity = tonumber(ARGV[at + 3])}
  if ARGV[at] == 'LeakyBucket' then
    limit.queues, limit.capacity = true, limit.capacity + 1 -- the queue and the unit on its way out
  end
  return algorithm_of(ARGV[at]), limit
end
