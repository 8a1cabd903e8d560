-- spend_compact decides requests as spend does, if a counter of them is compact. It reads each counter when it decides the charge.
--   KEYS      as in spend. A compact counter has the key of its block, or of its block for even windows and of that for odd windows
--   ARGV[1]   now, and
--   ARGV[2]   the numbers of the shapes, as in spend
--   ARGV[3]   the fields of the compact counters in their blocks, of 6 bytes each, in the order of KEYS
--   ARGV[4]…  the shapes, as in spend. After 'enforce' or 'shadow', each charge has its storage: 'exact', 'block', or 'blocks' if there are two
-- Reply and what must never happen: as in spend.
local shapes, shape_numbers = read_shapes(4, 9), {byte(ARGV[2], 1, -1)}
local next_key, next_field, index, problems = 1, 1, 0, {}

-- What is known about the charges of a request until all of them are decided, as in spend; and where the counters are.
local firsts, next_values, expiries, keep_ttls, appends = {}, {}, {}, {}, {}
local keys, odd_keys, fields, blocks = {}, {}, {}, {}

for request = 1, #shape_numbers do
  local shape = shapes[shape_numbers[request]]
  local counts = shape.spends
  for i = 1, #shape do
    local charge, key = shape[i], KEYS[next_key]
    local window, storage, value, field, odd_key, block, problem = charge.window, charge.storage, nil, nil, nil, nil, nil
    index, next_key = index + 1, next_key + 1
    if storage == 'exact' then
      value = read_value(key)
    else
      field = string.sub(ARGV[3], next_field, next_field + 5)
      next_field = next_field + 6
      if storage == 'blocks' then odd_key, next_key = KEYS[next_key], next_key + 1 end
      value, block, problem = read_counter(now, window, field, key, odd_key)
    end
    local wait, remaining, reset_after, at, next_value, expires_at, keep_ttl, append = charge.step(value, now, charge, key)
    if not wait then
      problem = remaining
      wait, remaining, reset_after, at, next_value, expires_at = charge.step(false, now, charge, key)
    end
    if problem then problems[#problems + 1] = problem == 'ahead' and -index or index - 1 end
    firsts[i], next_values[i], expiries[i], keep_ttls[i], appends[i] = size + 1, next_value, expires_at, keep_ttl, append
    keys[i], odd_keys[i], fields[i], blocks[i] = key, odd_key, field, block
    add_decision(remaining, reset_after, wait, at)
    if wait < 0 and charge.enforced then counts = false end
  end
  if counts or shape.spends and shape.has_debt then
    for i = 1, #shape do
      local charge, expires_at = shape[i], expiries[i]
      local cost, key = charge.cost, keys[i]
      if expires_at and cost > 0 and (counts or charge.is_debt) then
        if fields[i] then
          write_counter(next_values[i], keep_ttls[i], now, charge.window, fields[i], key, odd_keys[i], blocks[i])
        elseif appends[i] then
          appends[i]()
        elseif keep_ttls[i] then
          call('SET', key, next_values[i], 'KEEPTTL')
        else
          call('SET', key, next_values[i], 'PXAT', to_milliseconds(expires_at))
        end
        local first = firsts[i]
        local head = reply[first] - 4 * cost
        if head < 0 then head = head % 4 end -- nothing remains
        reply[first], reply[first + 1] = head, expires_at - now
      end
    end
  end
end
for i = 1, #problems do reply[size + i] = problems[i] end
return reply
