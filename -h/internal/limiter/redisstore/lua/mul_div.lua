-- mul_div returns the integer quotient and the remainder of a * b / c. It is exact for a < 2^30 and b, c <= 2^42. If the
-- product is not exact in one step, it multiplies ten bits of a at a time: remainder * 2^10 + ten bits * b stays below 2^53.
local function mul_div(a, b, c)
  local product = a * b
  local remainder = product % c
  if product < 9007199254740992 then return (product - remainder) / c, remainder end
  product = floor(a / 1048576) * b
  remainder = product % c
  local quotient = (product - remainder) / c
  product = remainder * 1024 + floor(a / 1024) % 1024 * b
  remainder = product % c
  quotient = quotient * 1024 + (product - remainder) / c
  product = remainder * 1024 + a % 1024 * b
  remainder = product % c
  return quotient * 1024 + (product - remainder) / c, remainder
end
