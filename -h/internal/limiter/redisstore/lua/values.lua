-- values has the values of KEYS, false for a key that does not exist. MGET returns false for one that is not a string, too: see write. One command
-- reads them, unless a counter of this run is a log: it can be a ring of megabytes, which MGET would return.
local values
if ARGV[4] == 'logs' then
  values = {}
  local pcall = redis.pcall
  for i = 1, #KEYS do
    local value = pcall('GETRANGE', KEYS[i], '0', '1793') -- as read_value, without a call for most keys
    if #value == 0 then value = value ~= '' and read_value(KEYS[i]) end -- absent, or an error
    values[i] = value
  end
else
  values = call('MGET', unpack(KEYS, 1, min(#KEYS, 1000))) -- unpack has a limit
  for from = 1001, #KEYS, 1000 do
    local read = call('MGET', unpack(KEYS, from, min(from + 999, #KEYS)))
    for i = 1, #read do values[from + i - 1] = read[i] end
  end
end
