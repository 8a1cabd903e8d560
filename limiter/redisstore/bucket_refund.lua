
-- bucket_refund takes back what of the cost cannot have drained since: the whole units that are left of it at the least.
local function bucket_refund(value, now, charge, _, spent_at)
  local at, whole, part, ends = bucket_open(value, now, charge)
  local _, left = bucket_sink(spent_at, charge.cost, 0, at, charge)
  if (whole == 0 and part == 0) or left == 0 then return false end
  whole = whole - left
  if whole < 0 or (whole == 0 and part == 0) then return nil end
  ends = min(at + bucket_drain(whole, part, charge), ends)
  return pack(at) .. pack(whole) .. pack(part) .. pack(ends), ends
end
