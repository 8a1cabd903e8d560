-- now is the time in microseconds since the epoch: ARGV[1], or that of this server if it is ''.
local now
if ARGV[1] == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = tonumber(ARGV[1])
end
