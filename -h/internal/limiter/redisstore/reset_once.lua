-- Resets a counter once. KEYS: the mark that the reset was made, and the keys of the counter. ARGV: the lifetime of the mark in seconds, the
-- channel of invalidations or "", the message, and the field of a compact counter.
if redis.call('SET', KEYS[1], '', 'NX', 'EX', ARGV[1]) then
  for i = 2, #KEYS do
    if ARGV[4] then
      redis.call('HDEL', KEYS[i], ARGV[4])
    else
      redis.call('UNLINK', KEYS[i])
    end
  end
  if ARGV[2] ~= '' then
    redis.call('PUBLISH', ARGV[2], ARGV[3])
  end
end
return 0
