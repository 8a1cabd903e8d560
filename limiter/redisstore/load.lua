-- load_algorithm returns what an algorithm does in this script.
--   step(value, now, charge, key): wait (0 or the delay if the charge is allowed, else the retry after, negative, or
--     NEVER), remaining, reset after and the counter's own time; if it is allowed also the value with the cost counted
--     (or a function that writes it), the instant at which the counter will be as new, and whether the key expires then
--     already. It changes nothing.
--   refund(value, now, charge, key, at): false if there is nothing to write, else the value without what was spent at that
--     instant as far as it counts, nil for none, and the instant at which the counter will be as new.
-- value is false where there is none, nil for a log that is read in place.
local function load_algorithm(name)
  if name == 'SlidingWindowCounter' then return load_sliding_window_counter() end
  if name == 'TokenBucket' or name == 'LeakyBucket' then return load_bucket() end
  if name == 'FixedWindow' then return load_fixed_window() end
  if name == 'SlidingWindowLog' then return load_sliding_window_log() end
  error('unknown algorithm ' .. name)
end
