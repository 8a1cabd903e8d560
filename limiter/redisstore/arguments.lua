-- What the scripts that work on counters read from ARGV and KEYS.

-- instant is now in microseconds since the epoch, this server's own where the argument is empty.
local function instant(argument)
  if argument ~= '' then return tonumber(argument) end
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

-- whole is false when a log of this run is read and written in place: then all of its logs are.
local whole = true

-- What has been asked of an algorithm is kept: charges seldom differ in it.
local loaded = {}

-- charge_at reads five arguments from ARGV[at] on: algorithm, limit (units), window (us), capacity (units; of a bucket;
-- negative of a LeakyBucket that admits at once or not at all), cost (units).
-- work is what the algorithm does, see load.
local function charge_at(at)
  local name, capacity = ARGV[at], tonumber(ARGV[at + 3])
  local charge = {
    work = loaded[name], units = tonumber(ARGV[at + 1]), window = tonumber(ARGV[at + 2]),
    capacity = max(capacity, -capacity), at_once = capacity < 0, cost = tonumber(ARGV[at + 4]), queues = name == 'LeakyBucket', logs = name == 'SlidingWindowLog', enforced = true,
  }
  if not charge.work then
    charge.work = load_algorithm(name)
    loaded[name] = charge.work
  end
  if charge.logs and charge.units > MAX_WHOLE_LOG then whole = false end
  return charge
end

-- What is read of the counters, by place in KEYS, and what has been written, by key.
local values, written = {}, {}

-- read_values reads the values of all keys at once where all are read whole. Call it when all charges are known. To MGET,
-- what is no string is nothing, and gives way.
local function read_values()
  if not whole or not several then return end
  for from = 1, #KEYS, 1000 do -- unpack has a limit
    local read = call('MGET', unpack(KEYS, from, min(from + 999, #KEYS)))
    for i = 1, #read do values[from + i - 1] = read[i] end
  end
end

-- value_of is the value of KEYS[place], false if there is none, nil if it is read in place.
local function value_of(place, charge)
  local value = written[KEYS[place]]
  if value == nil then value = values[place] end
  if value == nil and (whole or not charge.logs) then value = call('MGET', KEYS[place])[1] end
  return value
end

-- write writes a value, nil for none; microseconds is when its key expires, kept whether it does so already.
local function write(key, value, microseconds, kept)
  if not value then
    call('DEL', key)
  elseif kept then
    call('SET', key, value, 'KEEPTTL')
  else
    call('SET', key, value, 'PXAT', milliseconds(microseconds))
  end
  if several then written[key] = value or false end
end
