-- Graders: how good an answer is, from 0 to 1, by what the case expects.
local alc, shared = ...
local type, tostring, pcall, next = type, tostring, pcall, next
local find, sub, lower, gsub, match, len = string.find, string.sub, string.lower, string.gsub, string.match, utf8.len
local decode, extract, parse_number, trim, raise = alc.json_decode, alc.json_extract, alc.parse_number, shared.trim, shared.raise
local is_list, text_of = shared.is_list, shared.text_of

-- True if the test holds for what is expected, or for one thing of a list of such.
local function any(expected, test)
  if type(expected) == "table" and is_list(expected) then
    for i = 1, #expected do
      if expected[i] ~= nil and test(tostring(expected[i])) then return true end
    end
    return false
  end
  return expected ~= nil and type(expected) ~= "table" and test(tostring(expected))
end

-- Words without case, marks and spaces.
local function plain(text) return trim((gsub(gsub(lower(text), "[%p%c]", " "), "%s+", " "))) end

local function flexible(text, expected)
  local said, wanted = plain(text), plain(expected)
  if said == wanted then return true end
  local number = parse_number((gsub(expected, ",", "")))
  if number and match(trim(expected), "^%-?[%d,]+%.?%d*$") then return parse_number((gsub(text, "(%d),(%d)", "%1%2"))) == number end
  return wanted ~= "" and find(" " .. said .. " ", " " .. wanted .. " ", 1, true) ~= nil
end

-- A bound: an option of the grader, a field of what is expected, or what is expected itself.
local function bound(name, options, expected)
  local value = options[name]
  if value == nil and type(expected) == "table" then value = expected[name] end
  return type(value) == "number" and value or nil
end

local graders = {}

function graders.exact_match(answer)
  return any(answer.expected, function(expected) return trim(answer.text) == trim(expected) end)
end

function graders.contains(answer)
  return any(answer.expected, function(expected) return find(answer.text, expected, 1, true) ~= nil end)
end

function graders.starts_with(answer)
  return any(answer.expected, function(expected) return sub(answer.text, 1, #expected) == expected end)
end

function graders.regex(answer) -- a pattern of Lua
  return any(answer.expected, function(expected)
    local ok, from = pcall(find, answer.text, expected)
    return ok and from ~= nil
  end)
end

function graders.json_valid(answer) return (pcall(decode, answer.text)) end

function graders.valid_json_response(answer) return extract(answer.text) ~= nil end

function graders.not_empty(answer) return find(answer.text, "%S") ~= nil end

function graders.length(answer, options)
  local length = len(answer.text, 1, -1, true) or #answer.text
  local least, most = bound("min", options, answer.expected), bound("max", options, answer.expected)
  return (not least or length >= least) and (not most or length <= most)
end

function graders.latency(answer, options)
  local most = bound("max_ms", options, answer.expected)
  return not most or answer.elapsed_ms <= most
end

function graders.flexible_match(answer)
  return any(answer.expected, function(expected) return flexible(answer.text, expected) end)
end

-- ---- how a scenario names them ------------------------------------------------------------------------------------------------------

-- {name, grade, options, weight} of an entry: a name, a function, or a table with one of them as its first element or as `grader`.
local function binding(entry)
  local options, grader = {}, entry
  if type(entry) == "table" then
    options, grader = entry, entry.grader
    if grader == nil then grader = entry[1] end
  end
  local weight = options.weight
  if weight == nil then weight = 1 end
  if type(weight) ~= "number" or weight < 0 then raise("alc.eval: the weight of a grader must be a number, not negative") end
  if type(grader) == "function" then return {name = options.name or "inline", grade = grader, options = options, weight = weight} end
  if not graders[grader] then raise("alc.eval: unknown grader '" .. text_of(grader) .. "'") end
  return {name = grader, grade = graders[grader], options = options, weight = weight}
end

-- All of a scenario: `graders`, `bind`, and the list part of the table itself.
function shared.bindings(scenario)
  local found = {}
  local lists = {scenario.graders or {}, scenario.bind or {}, scenario}
  for i = 1, 3 do
    local list = lists[i]
    if type(list) ~= "table" then list = {list} end
    for j = 1, #list do found[#found + 1] = binding(list[j]) end
  end
  if #found == 0 then found[1] = binding("exact_match") end
  return found
end

-- From 0 to 1. A grader of the script's may give a number, or anything that is true or not.
function shared.grade(bound_grader, answer)
  local score = bound_grader.grade(answer, bound_grader.options)
  if type(score) ~= "number" then return score and 1 or 0 end
  return score ~= score and 0 or score < 0 and 0 or score > 1 and 1 or score
end

-- require("evalframe"): enough of it that scenarios written for it can name their graders.
local names = {}
for name in next, graders do names[name] = name end
package.preload.evalframe = function()
  return {
    graders = names,
    bind = function(entry) return entry end,
    case = function(case) return case end,
  }
end
