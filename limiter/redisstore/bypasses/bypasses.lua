-- Returns the fields and values of a hash, and then ''. If it has too many of them, deletes it and returns only what is too much.
-- KEYS: the hash. ARGV: the most fields, and the most bytes of fields and values.
local count = redis.call('HLEN', KEYS[1])
if count > tonumber(ARGV[1]) then
  redis.call('UNLINK', KEYS[1])
  return {count .. ' fields'}
end
local all, bytes = redis.call('HGETALL', KEYS[1]), 0
for i = 1, #all do
  bytes = bytes + #all[i]
end
if bytes > tonumber(ARGV[2]) then
  redis.call('UNLINK', KEYS[1])
  return {bytes .. ' bytes'}
end
all[#all + 1] = ''
return all
