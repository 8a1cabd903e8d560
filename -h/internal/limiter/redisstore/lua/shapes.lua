-- read_charge reads the eight arguments of a charge in a shape, from ARGV[at] on, see spend.lua.
local function read_charge(at)
  local cost, debt = tonumber(ARGV[at + 5]), ARGV[at + 6]
  local needed = cost
  if debt == 'unit' then needed = 1 end
  return {
    step = load_algorithm(ARGV[at]), units = tonumber(ARGV[at + 1]), window = tonumber(ARGV[at + 2]), capacity = tonumber(ARGV[at + 3]),
    max_delay = tonumber(ARGV[at + 4]), cost = cost, needed = needed, is_debt = debt ~= '', enforced = ARGV[at + 7] == 'enforce',
  }
end

-- read_shapes reads the shapes from ARGV[at] on, in which each charge has a number of arguments. It returns them by the bytes of ARGV[2].
local function read_shapes(at, width)
  local shapes, number = {}, 48 -- '0'
  while at <= #ARGV do
    local shape, count = {spends = ARGV[at] == 'spend', has_debt = false}, tonumber(ARGV[at + 1])
    at = at + 2
    for i = 1, count do
      local charge = read_charge(at)
      charge.storage = ARGV[at + 8] -- only in spend_compact.lua
      shape[i], shape.has_debt = charge, shape.has_debt or charge.is_debt
      at = at + width
    end
    shapes[number] = shape
    number = number + 1
  end
  return shapes
end
