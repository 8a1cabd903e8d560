-- any_slot runs a script on keys that can be in any slots of this node of a Redis Cluster. The keys of EVALSHA must be in one slot, but a
-- script may access all keys of its node. So the keys are arguments.
--   ARGV[1]   number of keys
--   ARGV[2]…  the keys, then the arguments of the script
-- Reply: that of the script, or an empty list if this node does not have all keys. Then the script did not run.
local arguments, KEYS, ARGV = ARGV, {}, {}
local values, key_count = {}, tonumber(arguments[1])
for i = 1, key_count do
  local key = arguments[1 + i]
  local value = redis.pcall('GETRANGE', key, '0', '1793')
  if type(value) == 'table' then
    if not string.find(value.err, 'WRONGTYPE', 1, true) then return {} end
    value = WRONG_TYPE
  elseif value == '' then
    value = false
  end
  KEYS[i], values[i] = key, value
end
for i = key_count + 2, #arguments do ARGV[#ARGV + 1] = arguments[i] end
