
-- ring_bytes reads bytes of the value, the first being 0.
local function ring_bytes(ring, from, count)
  return call('GETRANGE', ring.key, from, from + count - 1)
end

-- ring_time is when the unit with index i was admitted, 0 being the oldest held.
local function ring_time(ring, i)
  return unpack_number(ring_bytes(ring, ring.header + WIDTH * ((ring.first + i) % ring.capacity), WIDTH), 1)
end

-- ring_live is the bytes of the units that count.
local function ring_live(ring)
  if ring.live == 0 then return '' end
  local slot = (ring.first + ring.expired) % ring.capacity
  local straight = min(ring.live, ring.capacity - slot)
  local times = ring_bytes(ring, ring.header + WIDTH * slot, WIDTH * straight)
  if straight == ring.live then return times end
  return times .. ring_bytes(ring, ring.header, WIDTH * (ring.live - straight))
end

-- ring_open reads what stands before the times. A list is a ring of as many slots as it has units.
local function ring_open(key, now, window)
  local ring = {key = key, window = window, header = LOG_LIST, first = 0, capacity = 1, length = 0, newest = 0}
  local header = ring_bytes(ring, 0, LOG_RING)
  if byte(header, 1) == LOG_L then
    ring.length = (call('STRLEN', key) - LOG_LIST) / WIDTH
    ring.capacity = ring.length
    ring.newest = ring_time(ring, ring.length - 1)
  elseif header ~= '' then
    local next
    ring.header = LOG_RING
    ring.capacity, next = unpack_pair(header, 2)
    ring.length, ring.newest = unpack_pair(header, 2 + 2 * WIDTH)
    ring.first = (next - ring.length) % ring.capacity
  end
  ring.at = max(now, ring.newest) -- the clock may have stepped back
  ring.expired = log_search(ring_time, ring, ring.length, ring.at - window + 1)
  ring.live = ring.length - ring.expired
  return ring
end

-- ring_head writes what stands before the times, and lets the key live as long as its newest unit counts.
local function ring_head(ring)
  call('SETRANGE', ring.key, 0, 'R' .. pack(ring.capacity) ..
    pack((ring.first + ring.length) % ring.capacity) .. pack(ring.length) .. pack(ring.newest))
  call('PEXPIREAT', ring.key, milliseconds(ring.newest + ring.window))
end

-- ring_lay lays times, as bytes, out anew in a ring of capacity slots, which hold them all. The head is still to write.
local function ring_lay(ring, times, capacity)
  call('SET', ring.key, string.rep('\0', LOG_RING) .. times)
  ring.header, ring.first, ring.expired, ring.capacity = LOG_RING, 0, 0, capacity
  ring.live = #times / WIDTH
  ring.length = ring.live
end

-- ring_extend writes cost units behind the newest.
local function ring_extend(ring, units, cost)
  if ring.header ~= LOG_RING or ring.capacity ~= units then ring_lay(ring, ring_live(ring), units) end
  local unit = pack(ring.at)
  local slot = (ring.first + ring.length) % ring.capacity
  local straight = min(cost, ring.capacity - slot)
  call('SETRANGE', ring.key, LOG_RING + WIDTH * slot, string.rep(unit, straight))
  if straight < cost then
    call('SETRANGE', ring.key, LOG_RING, string.rep(unit, cost - straight))
  end
  ring.first = (ring.first + ring.expired) % ring.capacity
  ring.live = ring.live + cost
  ring.length, ring.expired, ring.newest = ring.live, 0, ring.at
  ring_head(ring)
end

local function ring_step(key, now, charge)
  local units, cost, ring = charge.units, charge.cost, ring_open(key, now, charge.window)
  local remaining, reset_after, excess = max(0, units - ring.live), 0, ring.live + cost - units
  if ring.live > 0 then reset_after = ring.newest + ring.window - now end
  if excess <= 0 then
    local write = function() ring_extend(ring, units, cost) end
    return 0, remaining, reset_after, ring.at, write, ring.at + ring.window
  end
  local wait = NEVER
  if cost <= units then wait = now - ring_time(ring, ring.expired + excess - 1) - ring.window end
  return wait, remaining, reset_after, ring.at
end

local function sliding_window_log_step(value, now, charge, key)
  if value == nil then return ring_step(key, now, charge) end
  return sliding_window_log_list_step(value, now, charge)
end
