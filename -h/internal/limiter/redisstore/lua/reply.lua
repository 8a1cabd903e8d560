-- How the scripts that decide reply, at the time now (us since the epoch).

-- size is the number of numbers.
local reply, size = {now}, 1

-- add_decision appends the decision about a charge to the reply.
local function add_decision(remaining, reset_after, wait, at)
  local first, marks = size + 1, 0
  size = size + 2
  reply[size] = reset_after
  if wait ~= 0 then
    marks, size = 1, size + 1
    reply[size] = wait
  end
  if at ~= now then
    marks, size = marks + 2, size + 1
    reply[size] = at - now
  end
  reply[first] = 4 * remaining + marks
end
