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
    visit(36 + 8 * ring_slot(ring, i), 8 * in_piece)
    i, count = i + in_piece, count - in_piece
  end
end

-- ring_move replaces count entries from entry i on by those from entry source on, with sums less removed units. It returns false if slots are missing.
local function ring_move(ring, i, source, count, removed)
  local bytes, moved, from = '', {}, 1
  ring_parts(ring, source, count, function(at, length) bytes = bytes .. call('GETRANGE', ring.key, at, at + length - 1) end)
  if #bytes < 8 * count then return false end
  for j = 1, count do
    local high, low = unpack_numbers('>I4I4', bytes, 8 * j - 7)
    local before = low % SUMS
    moved[j] = pack('>I4I4', high, low - before + (before - removed) % SUMS)
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

-- ring_refund subtracts the units from the sums of the entries after their run. If these are more than 256, it removes the oldest
-- units instead, which takes the same time for any number of entries: as many units remain, and some of them count longer.
local function ring_refund(value, now, charge, key, spent_at)
  local ring, problem = ring_read(value, key, now, charge.window)
  if not ring then return problem end
  if ring.used == 0 then return 'keep' end
  local i, before = ring_search(ring, ring.expired, spent_at)
  if i == ring.length or ring_entry(ring, i) ~= spent_at then return ring.is_corrupt and 'corrupt' or 'keep' end
  local last, after = ring.length - 1, ring.total
  if i < last then
    local _
    _, after = ring_entry(ring, i + 1)
  end
  local count = (after - before) % SUMS
  local removed = min(charge.cost, count)
  if ring.is_corrupt or count > ring.used then return 'corrupt' end
  if removed == ring.used then return 'delete' end
  if removed == 0 then return 'keep' end
  i, last = i - ring.expired, last - ring.expired
  ring_drop_expired(ring)
  if last - i > 256 then
    local oldest = ring_search(ring, 0, removed + 1, ring.base) - 1
    local time = ring_entry(ring, oldest)
    if ring.is_corrupt then return 'corrupt' end
    ring.expired = oldest
    call('SETRANGE', key, 36 + 8 * ring_slot(ring, oldest), pack_entry(time, (ring.base + removed) % SUMS))
    ring_drop_expired(ring)
  else
    local source = i + 1
    if removed < count then
      i = source
    elseif i == last then
      ring.newest = ring_entry(ring, i - 1)
    end
    if ring.is_corrupt or not ring_move(ring, i, source, last - source + 1, removed) then return 'corrupt' end
    if i < source then ring_remove_last(ring) end
    ring.total = (ring.total - removed) % SUMS
  end
  ring_write_header(ring)
  return 'keep'
end
