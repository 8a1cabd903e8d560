-- The functions of the ring are defined only when a log is one.
local ring_function

local function sliding_window_log_step(value, now, charge, key)
  if value == nil then value = read_log(key, charge.units) end
  if is_ring(value) then
    ring_function = ring_function or load_ring()
    return ring_function(value, now, charge, key)
  end
  return list_step(value, now, charge)
end
