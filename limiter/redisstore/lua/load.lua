-- load_algorithm returns the function of an algorithm: step in the spend script, refund in the refund script.
--   step(value, now, charge, key, field, odd_key) returns; field and odd_key are those of a compact counter
--     wait         0 or the delay (us) if the charge is allowed; else the negative retry after (us), or NEVER
--                  of a debt: after it is counted, also on peek
--     remaining    units before the charge
--     reset_after  us, before the charge
--     at           the counter's own time (us): later than now if the clock stepped back
--     and if the charge is allowed, or charge.debt:
--     next_value   the value that includes the cost, or a function that writes it
--     expires_at   when the whole limit is available again (us); the key expires then
--     keep_ttl     true if the key already expires at that time; of a compact counter the key of its block;
--                  IN_PLACE if next_value is a function
--     It changes nothing. It returns nil if the value is corrupt: no script wrote it. It returns nil and true if the value
--     is too far ahead: its time is more than one window after now, or the charge would wait longer than the limit can make
--     it wait. Then the caller calls it again with the value false, so that the counter starts over.
--   refund(value, now, charge, key, spent_at, field, odd_key) returns
--     false if there is nothing to write; else the value without the units spent at that instant that still count, nil if
--     the whole limit is available, and expires_at as above; or a function that writes it. It returns false and true if the
--     value is corrupt. A value that is too far ahead has nothing to refund.
-- value is false if the key does not exist, and nil if the function reads it: of a log with a limit above MAX_WHOLE_LOG, and of a compact
-- counter. Of a ring, value can be the first bytes.
local function load_algorithm(name)
  LOAD_EACH_ALGORITHM(name)
  error('unknown algorithm ' .. name)
end
