-- superseded returns the last entries of the list of revisions.
--
-- KEYS[1]  list of revisions
-- ARGV[1]  number of entries to read, from the end
-- ARGV[2]  length of the longest revision, in bytes
-- Reply:   entries, oldest first, after the last one that is longer. Another program has written that: it is removed with those before it, because
--          to read it again takes up to a second. A key of another type has no entries: the next publication replaces it
--
-- Must never happen: a reply with an entry of any length; two long entries that are read in one run, or one that is read in two.
for i = 1, tonumber(ARGV[1]) do
  local reply = redis.pcall('LRANGE', KEYS[1], -i, -i)
  if reply.err then
    if not string.find(reply.err, 'WRONGTYPE', 1, true) then
      return reply
    end
    return {}
  end
  if not reply[1] then
    break
  end
  if #reply[1] > tonumber(ARGV[2]) then
    if i == 1 then
      redis.call('DEL', KEYS[1])
    else
      redis.call('LTRIM', KEYS[1], 1 - i, -1)
    end
    break
  end
end
return redis.call('LRANGE', KEYS[1], -ARGV[1], -1)
