-- ring_parts calls visit with the offset and the length in bytes of each part of count entries from entry i on that is in one piece.
local function ring_parts(ring, i, count, visit)
  while count > 0 do
    local in_piece = count
    if i < ring.length1 then
      in_piece = ring.length1 - i
    elseif i < ring.length1 + ring.length2 then
      in_piece = ring.length1 + ring.length2 - i
    end
    in_piece = min(in_piece, count)
    visit(RING_HEADER + ENTRY * ring_slot(ring, i), ENTRY * in_piece)
    i, count = i + in_piece, count - in_piece
  end
end

-- ring_move replaces count entries from entry i on by those from entry of on, with sums less removed units. It returns false if slots are missing.
local function ring_move(ring, i, of, count, removed)
  local bytes, moved, from = '', {}, 1
  ring_parts(ring, of, count, function(at, length) bytes = bytes .. call('GETRANGE', ring.key, at, at + length - 1) end)
  if #bytes < ENTRY * count then return false end
  for j = 1, count do
    local high, low = unpack_numbers(ENTRY_FORMAT, bytes, ENTRY * (j - 1) + 1)
    local before = low % SUMS
    moved[j] = pack(ENTRY_FORMAT, high, low - before + (before - removed) % SUMS)
  end
  bytes = table.concat(moved)
  ring_parts(ring, i, count, function(at, length)
    call('SETRANGE', ring.key, at, string.sub(bytes, from, from + length - 1))
    from = from + length
  end)
  return true
end

-- ring_remove_last removes the newest entry.
local function ring_remove_last(ring)
  ring.length = ring.length - 1
  if ring.length3 > 0 then
    ring.length3 = ring.length3 - 1
  elseif ring.length2 > 0 then
    ring.length2 = ring.length2 - 1
  else
    ring.length1 = ring.length1 - 1
  end
end

-- ring_refund subtracts the units from the sums of the entries after their run. If these are more than MAX_MOVED, it removes the oldest
-- units instead, which takes the same time for any number of entries: as many units remain, and some of them count longer.
local function ring_refund(value, now, charge, key, spent_at)
  local ring, is_ahead = ring_read(value, key, now, charge.window)
  if not ring then return false, not is_ahead end
  if ring.used == 0 then return false end
  local i, before = ring_search(ring, ring.expired, spent_at)
  if i == ring.length or ring_entry(ring, i) ~= spent_at then return false, ring.is_corrupt end
  local last, after = ring.length - 1, ring.total
  if i < last then
    local _
    _, after = ring_entry(ring, i + 1)
  end
  local count = (after - before) % SUMS
  local removed = min(charge.cost, count)
  if ring.is_corrupt or count > ring.used then return false, true end
  if removed == ring.used then return nil end
  if removed == 0 then return false end
  i, last = i - ring.expired, last - ring.expired
  ring_drop_expired(ring)
  if last - i > MAX_MOVED then
    local oldest = ring_search(ring, 0, removed + 1, ring.base) - 1
    local time = ring_entry(ring, oldest)
    if ring.is_corrupt then return false, true end
    ring.expired = oldest
    call('SETRANGE', key, RING_HEADER + ENTRY * ring_slot(ring, oldest), pack_entry(time, (ring.base + removed) % SUMS))
    ring_drop_expired(ring)
  else
    local of = i + 1
    if removed < count then
      i = of
    elseif i == last then
      ring.newest = ring_entry(ring, i - 1)
    end
    if ring.is_corrupt or not ring_move(ring, i, of, last - of + 1, removed) then return false, true end
    if i < of then ring_remove_last(ring) end
    ring.total = (ring.total - removed) % SUMS
  end
  ring_write_header(ring)
  return false
end
