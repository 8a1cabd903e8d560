-- Compact counters share blocks: hashes that Redis keeps in one piece of memory while they are small. A field of a block is a
-- counter. A block expires whole: the field '' has the index of the last window of a counter in it, which sets its time to live. The blocks of an
-- algorithm that counts one window have one key. If the window before weighs too, there are two, for even and for odd windows: a counter moves to
-- the block of the next window when it counts there.

-- decode_field is decode_counts for a field, which has the index of the window modulo 32: so a small counter takes three bytes, and far fewer
-- windows have counters. The block of a window that is long past would have expired, so such an index is one of a window ahead.
local last_value, last_window, last_index, last_current, last_previous -- those of the last call: a field is decoded to find it, and to decide

local function decode_field(value, now, window)
  if value ~= last_value or window ~= last_window then
    local remainder, current, previous = decode_counts(value, now, 0)
    if not remainder or remainder >= 32 then return nil, 'corrupt' end
    local now_index = (now - now % window) / window
    local index = now_index + (remainder - now_index + 16) % 32 - 16 -- later if the clock stepped back
    if index > now_index + 1 or index < now_index - 2 then return nil, 'ahead' end
    last_value, last_window, last_index, last_current, last_previous = value, window, index, current, previous
  end
  return last_index, last_current, last_previous
end

local function encode_field(index, current, previous)
  return encode_counts(index % 32, current, previous)
end

-- read_field returns a field of a block, false if it does not exist, and a problem as step does.
local function read_field(block, field)
  local value = redis.pcall('HGET', block, field)
  if type(value) ~= 'table' then return value end
  if not string.find(value.err, 'WRONGTYPE', 1, true) then call('HGET', block, field) end -- raises the error
  return false, 'corrupt'
end

-- read_counter reads a counter in the blocks with the keys even and odd; odd is nil if there is one block. It returns the field, false if it
-- does not exist, the key of its block, and a problem as step does. Of two fields, the one of the later window counts.
local function read_counter(now, window, field, even, odd)
  local now_index = (now - now % window) / window
  local block, other = even, odd
  if odd and now_index % 2 == 1 then block, other = odd, even end
  local value, problem = read_field(block, field)
  if not other then return value, block, problem end
  local index, reason
  if value then
    index, reason = decode_field(value, now, window)
    if index == now_index then return value, block end -- as mostly
  end
  local other_value, other_problem = read_field(other, field)
  local other_index, other_reason
  if other_value then other_index, other_reason = decode_field(other_value, now, window) end
  if value and not index then problem = reason end
  if other_value and not other_index then other_problem = other_reason end
  if other_problem and problem ~= 'corrupt' then problem = other_problem end
  if other_index and other_index > (index or -1) then return other_value, other, problem end
  if index then return value, block, problem end
  return false, value and block or other_value and other, problem
end

-- write_counter writes the next value of a counter. block has the counter before, unless it is false. With keep, the counter stays in its window.
-- Else it enters the block of the next window, which expires with the last window in it.
local function write_counter(value, keep, now, window, field, even, odd, block)
  if keep then return call('HSET', block, field, value) end
  local index = decode_field(value, now, window)
  local key, windows = even, 1
  if odd then
    windows = 2
    if index % 2 == 1 then key = odd end
  end
  local last = redis.pcall('HGET', key, '')
  local last_index = type(last) == 'string' and tonumber(last)
  if last_index and last_index >= index and last_index * window <= now + window then
    call('HSET', key, field, value)
  else
    if last and not last_index then call('UNLINK', key) end -- no script wrote it
    call('HSET', key, '', format_integer(index), field, value)
    call('PEXPIREAT', key, to_milliseconds((index + windows) * window) - 1) -- a key expires after this millisecond
  end
  if block and block ~= key then call('HDEL', block, field) end
end
