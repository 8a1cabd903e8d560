-- refund refunds units that spend counted, if they still count.
--   KEYS                 the counters of the refunds, as in spend_compact; distinct
--   ARGV[1]              now in microseconds since the epoch, or '' to read the clock of this server
--   ARGV[2]              channel on which the key of every refunded counter is published; '' to publish nothing
--   ARGV[3]              the fields of the compact counters in their blocks, as in spend_compact
--   ARGV[4 + 7(i-1)]…    algorithm, limit (units), window (us), capacity (units; only of buckets, else ''), cost (units), the storage as in
--                        spend_compact, and the time at which spend counted them: now plus ahead in its reply (us)
-- Reply: for each corrupt counter, the index of the refund, from 0. It keeps its value, and starts over when spend counts on it.
-- Must never happen: a refund of more units than count; a key without a time to live; a longer time to live than before.

-- key_name returns the name of a counter in Go.
local function key_name(key, field)
  if not field then return key end
  local digits = string.gsub(field, '.', function(c) return string.format('%02x', byte(c)) end)
  return key .. '#' .. digits
end

local reply, next_key, next_field = {}, 1, 1
for at = 4, #ARGV, 7 do
  local refund, storage, spent_at = load_algorithm(ARGV[at]), ARGV[at + 5], tonumber(ARGV[at + 6])
  local charge = {
    units = tonumber(ARGV[at + 1]), window = tonumber(ARGV[at + 2]), capacity = tonumber(ARGV[at + 3]), cost = tonumber(ARGV[at + 4]),
  }
  local window, key, field, odd_key = charge.window, KEYS[next_key], nil, nil
  next_key = next_key + 1
  if storage ~= 'exact' then
    field = string.sub(ARGV[3], next_field, next_field + 5)
    next_field = next_field + 6
    if storage == 'blocks' then odd_key, next_key = KEYS[next_key], next_key + 1 end
  end
  if charge.cost > 0 then
    local value, block, problem
    if field then
      value, block, problem = read_counter(now, window, field, key, odd_key)
    else
      value = read_value(key)
    end
    local action, next_value, expires_at, keep_ttl = 'keep', nil, nil, nil
    if problem == 'corrupt' then
      action = problem
    elseif value then
      action, next_value, expires_at, keep_ttl = refund(value, now, charge, key, spent_at)
    end
    if action == 'set' and field then
      write_counter(next_value, keep_ttl, now, window, field, key, odd_key, block)
    elseif action == 'set' then
      call('SET', key, next_value, 'PXAT', to_milliseconds(expires_at))
    elseif action == 'delete' and field then
      call('HDEL', block, field)
    elseif action == 'delete' then
      call('DEL', key)
    elseif action == 'corrupt' then
      reply[#reply + 1] = (at - 4) / 7
    end
    if ARGV[2] ~= '' then call('PUBLISH', ARGV[2], key_name(key, field)) end
  end
end
return reply
