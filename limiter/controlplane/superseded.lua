-- superseded returns the last entries of the list of revisions, as far as they can be revisions.
--
-- KEYS[1]  list of revisions
-- ARGV[1]  number of entries to read, from the end
-- ARGV[2]  length of the longest revision, in bytes
-- Reply:   entries that are not longer, latest first. A key of another type has no entries: the next publication replaces it
--
-- Must never happen: a write; a reply with an entry of any length, because another program can write to the list.
local found = {}
for i = -1, -tonumber(ARGV[1]), -1 do
  local reply = redis.pcall('LRANGE', KEYS[1], i, i) -- one at a time: Lua then frees long ones
  if reply.err then
    if not string.find(reply.err, 'WRONGTYPE', 1, true) then
      return reply
    end
    return {}
  end
  if not reply[1] then
    break
  end
  if #reply[1] <= tonumber(ARGV[2]) then
    found[#found + 1] = reply[1]
  end
end
return found
