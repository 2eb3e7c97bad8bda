-- What is left of the budget.
local alc = ...
local type, next, call, null = type, next, alc.call, alc.null

-- nil without a budget. A limit that is not set is not there.
local function remaining()
  local left = call("holdfast.budget")
  if type(left) ~= "table" then return nil end
  local result = {}
  for name, value in next, left do
    if value ~= null then result[name] = value end
  end
  return result
end

alc.budget_remaining = remaining

function alc.budget_check()
  for _, value in next, remaining() or {} do
    if type(value) == "number" and value <= 0 then return false end
  end
  return true
end
