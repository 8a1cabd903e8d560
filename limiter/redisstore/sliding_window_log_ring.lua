
-- ring_bytes reads count bytes of the value from index from, which starts at 0.
local function ring_bytes(ring, from, count)
  return call('GETRANGE', ring.key, from, from + count - 1)
end

-- ring_time returns the time of unit i; unit 0 is the oldest. If the value lacks the slot, it marks the ring as corrupt.
local function ring_time(ring, i)
  local bytes = ring_bytes(ring, ring.header + WIDTH * ((ring.first + i) % ring.capacity), WIDTH)
  if #bytes == WIDTH then return (unpack_numbers(ONE_NUMBER, bytes)) end
  ring.is_corrupt = true
  return 0
end

-- ring_times returns the times of count units from unit i, as bytes. It returns '' if slots are missing.
local function ring_times(ring, i, count)
  if count == 0 then return '' end
  local slot = (ring.first + i) % ring.capacity
  local before_end = min(count, ring.capacity - slot)
  local times = ring_bytes(ring, ring.header + WIDTH * slot, WIDTH * before_end)
  if before_end < count then times = times .. ring_bytes(ring, ring.header, WIDTH * (count - before_end)) end
  return #times == WIDTH * count and times or ''
end

-- ring_live_times returns the times of the units that have not expired, as bytes. It returns '' if slots are missing.
local function ring_live_times(ring) return ring_times(ring, ring.expired, ring.live) end

-- ring_read_header returns the first bytes of the value; nil if the key is not a string.
local function ring_read_header(key)
  local header = redis.pcall('GETRANGE', key, 0, RING_HEADER - 1)
  if type(header) ~= 'table' then return header end
  if string.find(header.err, 'WRONGTYPE', 1, true) then return nil end
  return call('GETRANGE', key, 0, RING_HEADER - 1) -- raises the error
end

-- ring_read reads the header. It treats a list as a full ring. It returns nil if the value is corrupt, nil and true if it is
-- too far ahead.
local function ring_read(key, now, window)
  local ring = {key = key, window = window, header = LIST_HEADER, first = 0, capacity = 1, length = 0, newest = 0}
  local header = ring_read_header(key)
  local mark = header and byte(header, 1)
  if mark == LIST_MARK then
    local bytes = call('STRLEN', key)
    if not is_list_length(bytes) then return nil end
    ring.length = (bytes - LIST_HEADER) / WIDTH
    ring.capacity = ring.length
    ring.newest = ring_time(ring, ring.length - 1)
  elseif mark == RING_MARK and #header == RING_HEADER then
    ring.header = RING_HEADER
    local capacity, next, length, newest = unpack_numbers(FOUR_NUMBERS, header, 2)
    ring.capacity, ring.length, ring.newest = capacity, length, newest
    if not is_ring(ring.capacity, next, ring.length) then return nil end
    ring.first = (next - ring.length) % ring.capacity
  elseif header ~= '' then
    return nil
  end
  ring.at = max(now, ring.newest) -- the clock may have stepped back
  if ring.at > now + window then return nil, true end
  ring.expired = log_search(ring_time, ring, ring.length, ring.at - window + 1)
  ring.live = ring.length - ring.expired
  if ring.is_corrupt then return nil end
  if ring.live > 0 and not is_live(ring.newest, ring.at, window) then return nil end
  return ring
end

-- ring_write_header writes the header. The key expires with the newest unit.
local function ring_write_header(ring)
  call('SETRANGE', ring.key, 0, 'R' .. pack(FOUR_NUMBERS,
    ring.capacity, (ring.first + ring.length) % ring.capacity, ring.length, ring.newest))
  call('PEXPIREAT', ring.key, to_milliseconds(ring.newest + ring.window))
end

-- ring_rewrite replaces the slots with times, as bytes, in a ring of that capacity, which is large enough for them. The
-- caller writes the header.
local function ring_rewrite(ring, times, capacity)
  call('SET', ring.key, string.rep('\0', RING_HEADER) .. times)
  ring.header, ring.first, ring.expired, ring.capacity = RING_HEADER, 0, 0, capacity
  ring.live = #times / WIDTH
  ring.length = ring.live
end

-- ring_append appends cost units, and removes the expired ones.
local function ring_append(ring, units, cost)
  if ring.header ~= RING_HEADER or ring.capacity ~= units then ring_rewrite(ring, ring_live_times(ring), units) end
  local unit = pack(ONE_NUMBER, ring.at)
  local slot = (ring.first + ring.length) % ring.capacity
  local before_end = min(cost, ring.capacity - slot)
  call('SETRANGE', ring.key, RING_HEADER + WIDTH * slot, string.rep(unit, before_end))
  if before_end < cost then
    call('SETRANGE', ring.key, RING_HEADER, string.rep(unit, cost - before_end))
  end
  ring.first = (ring.first + ring.expired) % ring.capacity
  ring.live = ring.live + cost
  ring.length, ring.expired, ring.newest = ring.live, 0, ring.at
  ring_write_header(ring)
end

local function ring_step(key, now, charge)
  local units, cost = charge.units, charge.cost
  local ring, is_ahead = ring_read(key, now, charge.window)
  if not ring then return nil, is_ahead end
  local remaining, reset_after, excess = max(0, units - ring.live), 0, ring.live + cost - units
  if ring.live > 0 then reset_after = ring.newest + ring.window - now end
  if excess <= 0 then
    local write = function() ring_append(ring, units, cost) end
    return 0, remaining, reset_after, ring.at, write, ring.at + ring.window
  end
  if cost > units then return NEVER, remaining, reset_after, ring.at end
  local last = ring_time(ring, ring.expired + excess - 1) -- the excess has expired when this unit has
  if not is_live(last, ring.at, ring.window) then return nil end
  if last > now then return nil, true end
  return now - last - ring.window, remaining, reset_after, ring.at
end

local function sliding_window_log_step(value, now, charge, key)
  if value == nil then return ring_step(key, now, charge) end
  return sliding_window_log_list_step(value, now, charge)
end
