-- Whether a JSON Schema makes sense, before anybody is asked by it. What it finds is a plan: the schema, its patterns compiled and its
-- references resolved, for validate.lua.
--
-- Keywords that are not listed here are ignored, as the standard says of those that are not known.
local alc, shared = ...
local type, next, floor, huge, error, pcall = type, next, math.floor, math.huge, error, pcall
local gsub, sub, match, find, char, tonumber, format = string.gsub, string.sub, string.match, string.find, string.char, tonumber, string.format
local array, is_list, compile, text_of = alc.array, shared.is_list, shared.regex_compile, shared.text_of
local getmetatable = getmetatable

local MOST_NESTED, MOST_SCHEMAS = 100, 10000
local TYPES = {array = true, boolean = true, integer = true, null = true, number = true, object = true, string = true}

local function wrong(at, message) error({schema = at .. ": " .. message}, 0) end

-- ---- paths ------------------------------------------------------------------------------------------------------------------------

-- The path of a member: $.like.this, or $["like this"]
function shared.member(path, key)
  if find(key, "^[%a_][%w_]*$") then return path .. "." .. key end
  if #key > 100 then key = sub(key, 1, 100) .. "…" end
  return format('%s["%s"]', path, (gsub(key, '[%c"\\]', "?")))
end
local member = shared.member

-- ---- what keywords may be ---------------------------------------------------------------------------------------------------------

local function is_object(value) return type(value) == "table" and not is_list(value) end

-- A list, also an empty table: that is marked, so that whoever answers is shown one too.
local function is_array(value)
  if type(value) ~= "table" then return false end
  if is_list(value) then return true end
  if next(value) ~= nil or getmetatable(value) then return false end
  array(value)
  return true
end

local function count(value, at)
  if type(value) ~= "number" or value < 0 or value == huge or floor(value) ~= value then wrong(at, "must be a whole number, not negative") end
end

local function number(value, at)
  if type(value) ~= "number" or value ~= value or value == huge or value == -huge then wrong(at, "must be a number") end
end

local function names(value, at)
  if not is_array(value) then wrong(at, "must be a list of names") end
  for i = 1, #value do
    if type(value[i]) ~= "string" then wrong(at, "must be a list of names") end
  end
end

local function check_types(value, at)
  local list = is_array(value) and value or {value}
  if #list == 0 then wrong(at, "must name a type") end
  for i = 1, #list do
    if not TYPES[list[i]] then wrong(at, "there is no type " .. text_of(list[i])) end
  end
end

local check

local function one_schema(value, at, plan, depth) check(value, at, plan, depth) end

local function schema_list(value, at, plan, depth)
  if not is_array(value) or #value == 0 then wrong(at, "must be a list of schemas") end
  for i = 1, #value do check(value[i], at .. "[" .. i - 1 .. "]", plan, depth) end
end

local function schema_map(value, at, plan, depth)
  if not is_object(value) then wrong(at, "must be an object of schemas") end
  for key, inner in next, value do
    if type(key) ~= "string" then wrong(at, "must be an object of schemas") end
    check(inner, member(at, key), plan, depth)
  end
end

local function pattern(value, at, plan)
  if type(value) ~= "string" then wrong(at, "must be a regular expression") end
  if plan.patterns[value] then return end
  local program, problem = compile(value)
  if not program then wrong(at, "is no regular expression: " .. problem) end
  plan.patterns[value] = program
end

local function pattern_map(value, at, plan, depth)
  schema_map(value, at, plan, depth)
  for key in next, value do pattern(key, member(at, key), plan) end
end

local function name_map(value, at)
  if not is_object(value) then wrong(at, "must be an object of lists of names") end
  for key, list in next, value do names(list, member(at, text_of(key))) end
end

local function above_zero(value, at)
  number(value, at)
  if value <= 0 then wrong(at, "must be above 0") end
end

local function is_boolean(value, at)
  if type(value) ~= "boolean" then wrong(at, "must be true or false") end
end

local function reference(value, at, plan)
  if type(value) ~= "string" then wrong(at, "must be a text") end
  plan.references[#plan.references + 1] = {value, at}
end

local KEYWORDS = {
  type = check_types,
  enum = function(value, at)
    if not is_array(value) then wrong(at, "must be a list of values") end
  end,
  properties = schema_map,
  patternProperties = pattern_map,
  additionalProperties = one_schema,
  propertyNames = one_schema,
  required = names,
  minProperties = count,
  maxProperties = count,
  dependentRequired = name_map,
  items = one_schema,
  prefixItems = schema_list,
  contains = one_schema,
  minContains = count,
  maxContains = count,
  minItems = count,
  maxItems = count,
  uniqueItems = is_boolean,
  minLength = count,
  maxLength = count,
  pattern = pattern,
  minimum = number,
  maximum = number,
  exclusiveMinimum = number,
  exclusiveMaximum = number,
  multipleOf = above_zero,
  allOf = schema_list,
  anyOf = schema_list,
  oneOf = schema_list,
  ["not"] = one_schema,
  ["if"] = one_schema,
  ["then"] = one_schema,
  ["else"] = one_schema,
  ["$ref"] = reference,
  ["$defs"] = schema_map,
  definitions = schema_map,
}

check = function(schema, at, plan, depth)
  if type(schema) == "boolean" then return end
  if not is_object(schema) then wrong(at, "a schema is an object, true or false") end
  if depth > MOST_NESTED then wrong(at, "is nested too deep") end
  plan.count = plan.count + 1
  if plan.count > MOST_SCHEMAS then wrong(at, "there are too many schemas in it") end
  for key, value in next, schema do
    local keyword = KEYWORDS[key]
    if keyword then keyword(value, member(at, key), plan, depth + 1) end
  end
end

-- ---- references: to the schema itself, or by a JSON pointer ---------------------------------------------------------------------------

local function unescaped(part)
  part = gsub(part, "%%(%x%x)", function(code) return char(tonumber(code, 16)) end)
  return (gsub(gsub(part, "~1", "/"), "~0", "~"))
end

local function resolve(root, pointer, at)
  if sub(pointer, 1, 1) ~= "#" then wrong(at, "only references inside of the schema are known here") end
  if pointer ~= "#" and sub(pointer, 2, 2) ~= "/" then wrong(at, "must be # or a JSON pointer, such as #/$defs/name") end
  local found, rest = root, sub(pointer, 2)
  while rest ~= "" do
    local part, after = match(rest, "^/([^/]*)(.*)$")
    if type(found) ~= "table" then wrong(at, "leads to nothing") end
    part = unescaped(part)
    if is_list(found) then
      local index = match(part, "^%d+$") and tonumber(part)
      found = index and found[index + 1]
    else
      found = found[part]
    end
    if found == nil then wrong(at, "leads to nothing") end
    rest = after
  end
  return found
end

local LISTS = {"allOf", "anyOf", "oneOf"}
local SINGLES = {"not", "if", "then", "else"}

-- A schema that must be asked about a value before it can itself say anything of it would never answer.
local function refuse_circles(plan, schema, at, state)
  if type(schema) ~= "table" or state[schema] == "done" then return end
  if state[schema] then wrong(at, "is defined by itself") end
  state[schema] = "open"
  if schema["$ref"] then refuse_circles(plan, plan.targets[schema["$ref"]], at, state) end
  for i = 1, #SINGLES do
    if schema[SINGLES[i]] ~= nil then refuse_circles(plan, schema[SINGLES[i]], at, state) end
  end
  for i = 1, #LISTS do
    local list = schema[LISTS[i]] or {}
    for j = 1, #list do refuse_circles(plan, list[j], at, state) end
  end
  state[schema] = "done"
end

local function make(schema)
  local plan = {root = schema, patterns = {}, references = {}, targets = {}, count = 0}
  check(schema, "$", plan, 0)
  local done = 0
  while done < #plan.references do -- what a reference leads to may be in a keyword that is not known, and have references itself
    done = done + 1
    local pointer, at = plan.references[done][1], plan.references[done][2]
    if plan.targets[pointer] == nil then
      plan.targets[pointer] = resolve(schema, pointer, at)
      check(plan.targets[pointer], pointer, plan, 0)
    end
  end
  local state = {}
  for i = 1, #plan.references do refuse_circles(plan, plan.targets[plan.references[i][1]], plan.references[i][2], state) end
  return plan
end

-- A plan, or nil and what is wrong with the schema.
function shared.schema_plan(schema)
  local ok, result = pcall(make, schema)
  if ok then return result end
  if type(result) == "table" and result.schema then return nil, result.schema end
  error(result, 0)
end

shared.is_object = is_object
