-- read_value returns the first bytes of a value, false if the key does not exist. No value is longer
-- except the ring of a log, which can have 16 MB, and a corrupt one: 1794 bytes are the largest list of a log, and a byte that proves that it is one.
-- Indexes of commands are text: a number as an argument takes Redis three times as long.
local function read_value(key)
  local value = redis.pcall('GETRANGE', key, '0', '1793')
  if value == '' then return false end
  if type(value) == 'table' then
    if string.find(value.err, 'WRONGTYPE', 1, true) then return WRONG_TYPE end
    return call('GETRANGE', key, '0', '0') -- raises the error
  end
  return value
end
