-- Numbers are doubles here: integers are exact below 2^53, and what follows keeps every one below.

-- NEVER is the retry time of a cost above the limit.
local NEVER = -1

-- text is how a number leaves for a command or a stored value; tostring would round above 10^14.
local function text(number)
  return string.format('%.0f', number)
end

-- milliseconds rounds microseconds up: a key may outlive its use by less than a millisecond, and never the reverse.
local function milliseconds(microseconds)
  return text(math.ceil(microseconds / 1000))
end

-- mul_div returns the whole quotient and the remainder of a * b / c, exact for a < 2^30 and b, c <= 2^42. What is too
-- large for one step it multiplies ten bits of a at a time: remainder * 2^10 + ten bits * b stays below 2^53.
local function mul_div(a, b, c)
  local product = a * b
  local remainder = math.fmod(product, c)
  if product < 9007199254740992 then return (product - remainder) / c, remainder end
  product = math.floor(a / 1048576) * b
  remainder = math.fmod(product, c)
  local quotient = (product - remainder) / c
  product = remainder * 1024 + math.floor(a / 1024) % 1024 * b
  remainder = math.fmod(product, c)
  quotient = quotient * 1024 + (product - remainder) / c
  product = remainder * 1024 + a % 1024 * b
  remainder = math.fmod(product, c)
  return quotient * 1024 + (product - remainder) / c, remainder
end
