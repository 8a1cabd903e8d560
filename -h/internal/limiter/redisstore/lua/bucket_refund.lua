
-- bucket_refund refunds the units of the cost that cannot have drained since they were spent, rounded down.
local function bucket_refund(value, now, charge, _, spent_at)
  local at, whole, part, empty_at = bucket_read(value, now, charge)
  if not at then return whole end -- the problem
  local _, refundable = bucket_drain(spent_at, charge.cost, 0, at, charge)
  if (whole == 0 and part == 0) or refundable == 0 or spent_at > at then return 'keep' end
  whole = whole - refundable
  if whole < 0 or (whole == 0 and part == 0) then return 'delete' end
  empty_at = min(at + bucket_drain_time(whole, part, charge), empty_at)
  return 'set', pack('>I7I7I7I7', at, whole, part, empty_at), empty_at
end
