-- How the scripts read ARGV and KEYS, and write counters.

-- current_time returns now in microseconds since the epoch: the argument, or the time of this server if it is ''.
local function current_time(argument)
  if argument ~= '' then return tonumber(argument) end
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

-- read_whole is false if a log of this run has a limit above MAX_WHOLE_LOG. Then all of its logs read their values themselves. has_log is true
-- if the run has a log.
local read_whole, has_log = true, false

-- loaded caches load_algorithm, because most charges of a run have the same algorithm.
local loaded = {}

-- has_compact is true if a counter of this run is compact, see compact.lua.
local has_compact = false

-- next_key and next_field are the positions of the next key in KEYS, and of the next field of a compact counter in ARGV[3].
local FIELD = 6 -- bytes
local next_key, next_field = 1, 1

-- read_charge reads five arguments from ARGV[at] on: algorithm, limit (units), window (us), capacity (only for buckets, see
-- read_capacity), cost (units, see read_cost). The name of the algorithm of a compact counter begins with 'Compact'. apply is
-- the function of the algorithm, see load_algorithm.
local function read_charge(at)
  local name = ARGV[at]
  local capacity, max_delay = read_capacity(tonumber(ARGV[at + 3]))
  local cost, needed, debt = read_cost(tonumber(ARGV[at + 4]))
  local charge = {
    apply = loaded[name], units = tonumber(ARGV[at + 1]), window = tonumber(ARGV[at + 2]),
    capacity = capacity, max_delay = max_delay, cost = cost, needed = needed, debt = debt,
    queues = IS_QUEUE(name), is_log = IS_LOG(name), enforced = true,
  }
  if not charge.apply then
    charge.apply = load_algorithm(name)
    loaded[name] = charge.apply
  end
  if IS_COMPACT(name) then
    charge.is_compact, has_compact = true, true
    charge.has_odd_key = HAS_ODD_KEY(name)
  end
  if charge.is_log then
    has_log = true
    if charge.units > MAX_WHOLE_LOG then read_whole = false end
  end
  return charge
end

-- read_key returns the index in KEYS of the next charge, and for a compact counter its field and its second key.
local function read_key(charge)
  local index = next_key
  next_key = index + 1
  if not charge.is_compact then return index end
  local field = string.sub(ARGV[3], next_field, next_field + FIELD - 1)
  next_field = next_field + FIELD
  if not charge.has_odd_key then return index, field end
  next_key = index + 2
  return index, field, KEYS[index + 1]
end

-- values are the values that were read, by index in KEYS; written are those that were written, by key. written is nil if no key is read
-- after it was written: a new element of a table takes as long as 20 operations.
local values, written = prefetched or {}, nil

-- prefetch_values reads the values of all keys, unless a log reads its value itself or a counter is compact. It returns
-- whether all values are read. Call it after read_charge for all charges. One MGET reads them, unless a log can be a ring, because its limit was
-- larger: MGET would return all of it. MGET returns nothing for a key that is not a string, so the next write replaces it.
local function prefetch_values()
  if has_compact or not read_whole then return false end
  if prefetched then return true end
  if has_log then
    local pcall = redis.pcall
    for i = 1, #KEYS do
      local value = pcall('GETRANGE', KEYS[i], '0', LAST_OF_VALUE) -- as read_value
      if #value == 0 then value = value ~= '' and read_value(KEYS[i]) end -- absent, or an error
      values[i] = value
    end
    return true
  end
  values = call('MGET', unpack(KEYS, 1, min(#KEYS, 1000))) -- unpack has a limit
  for from = 1001, #KEYS, 1000 do
    local read = call('MGET', unpack(KEYS, from, min(from + 999, #KEYS)))
    for i = 1, #read do values[from + i - 1] = read[i] end
  end
  return true
end

-- value_of returns the value of KEYS[index], false if it does not exist, nil if its function reads it.
local function value_of(index, charge)
  if charge.is_compact or charge.is_log and not read_whole then return nil end
  local value = written and written[KEYS[index]]
  if value == nil then value = values[index] end
  if value == nil or value == IN_PLACE then value = read_value(KEYS[index]) end
  return value
end

-- The time of the last call of set, in microseconds and in milliseconds. Mostly, many counters expire at the same time.
local last_expiry, last_milliseconds

-- set writes a value. The key expires at expires_at (us); if keep_ttl, it already does.
local function set(key, value, expires_at, keep_ttl)
  if keep_ttl then
    call('SET', key, value, 'KEEPTTL')
  else
    if expires_at ~= last_expiry then last_expiry, last_milliseconds = expires_at, to_milliseconds(expires_at) end
    call('SET', key, value, 'PXAT', last_milliseconds)
  end
  if written then written[key] = value end
end

-- write_value writes a value as set does, or deletes the key if the value is nil. A compact counter is the field of the block
-- keep_ttl. A function writes the value itself.
local function write_value(key, value, expires_at, keep_ttl, field)
  if type(value) == 'function' then
    if written then written[key] = IN_PLACE end
    return value()
  end
  if field then return call('HSET', keep_ttl, field, value) end
  if value then return set(key, value, expires_at, keep_ttl) end
  call('DEL', key)
end
