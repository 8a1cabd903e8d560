-- Compact counters share blocks: hashes that Redis keeps in one piece of memory while they are small. A field of a block is a
-- counter, in the form of counts.lua with the index of its window modulo INDEXES. A block expires whole: the field '' has the
-- index of the last window of a counter in it, which sets its time to live. The blocks of a FixedWindow have one key. Those of a
-- SlidingWindowCounter have two, for even and for odd windows: a counter moves to the block of the next window when it counts
-- there.
--
-- The functions below give the steps of these algorithms the value of a counter, and write the next one.
local decode_units, encode_units, try = decode_counts, encode_counts, redis.pcall
-- INDEXES is small, so that a small counter takes three bytes. It is far above the number of windows of which counters exist.
local INDEXES = 32

-- The counter that read_counter has read: its window, its units in that window and in the one before, and the key of its block,
-- nil if it does not exist.
local stored_index, stored_current, stored_previous, stored_key
-- own_key is the key of the block for the window now, other_key that for the windows before and after it.
local now_index, own_key, other_key, compact_field, compact_window, compact_now

-- read_field reads the counter in a block if it has counted in a later window than the one that was read. It returns whether the
-- value is corrupt, and whether the counter is too far ahead: then it has no units. The block of a window that is long past would
-- have expired, so such an index is one that INDEXES wraps.
local function read_field(key, now)
  local value = try('HGET', key, compact_field)
  if not value then return false end
  if type(value) == 'table' then
    if string.find(value.err, 'WRONGTYPE', 1, true) then return true end
    call('HGET', key, compact_field) -- raises the error
  end
  local remainder, current, previous = decode_units(value, now, 0)
  if not remainder or remainder >= INDEXES then return true end
  local index = now_index + (remainder - now_index + INDEXES / 2) % INDEXES - INDEXES / 2 -- later if the clock stepped back
  local is_ahead = index > now_index + 1 or index < now_index - 2
  if is_ahead then index, current, previous = -1, 0, 0 end
  if index > stored_index or not stored_key then
    stored_index, stored_current, stored_previous, stored_key = index, current, previous, key
  end
  return false, is_ahead
end

-- read_counter reads a counter. Unless starts_over, it returns false if a value is corrupt, and false and true if it is too far
-- ahead.
local function read_counter(now, window, starts_over, key, field, odd_key)
  now_index, own_key, other_key = floor(now / window), key, odd_key
  compact_field, compact_window, compact_now = field, window, now
  if odd_key and now_index % 2 == 1 then own_key, other_key = odd_key, key end
  local value = try('HGET', own_key, field)
  if value and type(value) == 'string' then -- mostly, a counter has counted in the window now
    local remainder, current, previous = decode_units(value, now, 0)
    if remainder == now_index % INDEXES then
      stored_index, stored_current, stored_previous, stored_key = now_index, current, previous, own_key
      return true
    end
  end
  stored_index, stored_current, stored_previous, stored_key = -1, 0, 0, nil
  local is_corrupt, is_ahead = read_field(own_key, now)
  if other_key and stored_index < now_index then
    local other_is_corrupt, other_is_ahead = read_field(other_key, now)
    is_corrupt, is_ahead = is_corrupt or other_is_corrupt, is_ahead or other_is_ahead
  end
  if starts_over then
    if stored_index > now_index then stored_index, stored_current, stored_previous = -1, 0, 0 end
    return true
  end
  return not is_corrupt and not is_ahead, not is_corrupt
end

-- decode_counts returns the counter that was read.
local function decode_counts() return stored_index, stored_current, stored_previous end

-- write_field writes a counter to a block in which it is not. The block expires with its last window.
local function write_field(key, index, field, value, now, window, windows)
  local last = try('HGET', key, '')
  if last then
    last = type(last) == 'string' and tonumber(last)
    if last and last >= index and last * window <= now + window then return call('HSET', key, field, value) end
    if not last then call('UNLINK', key) end -- no script wrote it
  end
  call('HSET', key, '', format_integer(index), field, value)
  call('PEXPIREAT', key, to_milliseconds((index + windows) * window) - 1) -- a key expires after this millisecond
end

-- encode_counts returns the next units of the counter that was read, in the form in which write_value sets the field of its block,
-- or a function that writes them to the block of another window.
local function encode_counts(index, current, previous)
  local value = encode_units(index % INDEXES, current, previous)
  if stored_index == index then return value end
  local key, old_key, field, now, window = own_key, stored_key, compact_field, compact_now, compact_window
  local windows = other_key and 2 or 1
  return function()
    write_field(key, index, field, value, now, window, windows)
    if old_key and old_key ~= key then call('HDEL', old_key, field) end
  end
end

-- delete_counter returns a function that deletes the counter that was read.
local function delete_counter()
  local key, field = stored_key, compact_field
  return function() if key then call('HDEL', key, field) end end
end
