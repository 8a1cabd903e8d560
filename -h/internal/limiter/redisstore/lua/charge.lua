-- The algorithms are in loaders, by their names. Each is a function that defines the functions of the algorithm and returns one of them: step in the
-- scripts that spend, refund in the script that refunds. So a run does not define those that it does not use.
--   step(value, now, charge, key) decides a charge, and changes nothing. value is that of the key: text, or false if it does not exist. It
--   returns
--     wait         0 or the delay (us) if the charge is allowed; else the negative retry after (us), or NEVER
--                  of a debt: after it is counted, also on peek
--     remaining    units before the charge
--     reset_after  us, before the charge
--     at           the counter's own time (us): later than now if the clock stepped back
--     and if the charge can be counted, because it is allowed or a debt:
--     next_value   the value that includes the cost
--     expires_at   when the whole limit is available again (us); the key expires then
--     keep_ttl     whether the key already expires at that time
--     append       a function that writes in place, instead of next_value; only of a large log
--   or nil and the problem of the value, so that the caller decides again with the value false, and the counter starts over:
--     'corrupt'    no script wrote it
--     'ahead'      its time is more than one window after now, or the charge would wait longer than the limit can make it wait
--   refund(value, now, charge, key, spent_at) returns what to do about the units that spend counted at spent_at, if they still count:
--     'keep'       nothing: there is nothing to refund, or the function has changed the value in place
--     'set'        and next_value, expires_at and keep_ttl as above: write the value without them
--     'delete'     the whole limit is available
--     'corrupt', 'ahead'  nothing, because of this problem: the counter starts over when spend counts on it
local loaded = {} -- most charges of a run have the same algorithm

local function load_algorithm(name)
  local algorithm = loaded[name]
  if not algorithm then
    algorithm = loaders[name]()
    loaded[name] = algorithm
  end
  return algorithm
end
