-- Lists: map, filter, reduce, and the answer that most give.
local alc, shared = ...
local type, tostring = type, tostring
local array, raise, trim = alc.array, shared.raise, shared.trim

local function check(name, items, callback)
  if type(items) ~= "table" then raise(name .. ": items must be an array, got " .. type(items)) end
  if type(callback) ~= "function" then raise(name .. ": fn must be a function, got " .. type(callback)) end
end

function alc.map(items, fn)
  check("alc.map", items, fn)
  local results = array()
  for i = 1, #items do results[i] = fn(items[i], i) end
  return results
end

function alc.filter(items, fn)
  check("alc.filter", items, fn)
  local kept = array()
  for i = 1, #items do
    if fn(items[i], i) then kept[#kept + 1] = items[i] end
  end
  return kept
end

function alc.reduce(items, fn, init)
  check("alc.reduce", items, fn)
  local result, from = init, 1
  if init == nil then result, from = items[1], 2 end
  for i = from, #items do result = fn(result, items[i], i) end
  return result
end

function alc.vote(answers)
  if type(answers) ~= "table" then raise("alc.vote: answers must be an array, got " .. type(answers)) end
  local counts, order = {}, {}
  for i = 1, #answers do
    local answer = trim(tostring(answers[i]))
    if not counts[answer] then
      counts[answer] = 0
      order[#order + 1] = answer
    end
    counts[answer] = counts[answer] + 1
  end
  local winner, count = nil, 0
  for i = 1, #order do
    if counts[order[i]] > count then winner, count = order[i], counts[order[i]] end
  end
  return {winner = winner, count = count, total = #answers}
end
