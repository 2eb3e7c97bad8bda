-- Whether a value fits a schema, for which there is a plan (schema.lua). The first thing that is wrong is told, with its path.
local alc, shared = ...
local type, next, floor, abs, sort, concat = type, next, math.floor, math.abs, table.sort, table.concat
local len, format, sub = utf8.len, string.format, string.sub
local null, is_list, member, regex_matches = alc.null, shared.is_list, shared.member, shared.regex_matches
local tostring, encode, pcall = tostring, alc.json_encode, pcall

local function kind_of(value)
  if value == nil or value == null then return "null" end
  local kind = type(value)
  if kind ~= "table" then return kind end
  return is_list(value) and "array" or "object"
end

local function is_integer(value) return type(value) == "number" and floor(value) == value end

-- ---- equality: numbers by their value, tables by what is in them ----------------------------------------------------------------------

local function equal(one, other)
  if one == other then return true end
  if type(one) ~= "table" or type(other) ~= "table" then return (one == nil or one == null) and (other == nil or other == null) end
  if is_list(one) ~= is_list(other) then return false end
  for key, value in next, one do
    if other[key] == nil or not equal(value, other[key]) then return false end
  end
  for key in next, other do
    if one[key] == nil then return false end
  end
  return true
end

-- The same text for equal values, and only for those.
local function identity(value)
  local kind = kind_of(value)
  if kind == "number" then return is_integer(value) and format("%.0f", value) or format("%.17g", value) end
  if kind == "string" then return "'" .. #value .. ":" .. value end
  if kind ~= "array" and kind ~= "object" then return tostring(value == nil and null or value) end
  local parts = {}
  if kind == "array" then
    for i = 1, #value do parts[i] = identity(value[i]) end
    return "[" .. concat(parts, ",") .. "]"
  end
  for key, inner in next, value do parts[#parts + 1] = identity(key) .. "=" .. identity(inner) end
  sort(parts)
  return "{" .. concat(parts, ",") .. "}"
end

local function shown(value)
  local ok, text = pcall(encode, value)
  if not ok then return kind_of(value) end
  if #text > 60 then return sub(text, 1, 57) .. "..." end
  return text
end

-- ---- keywords: each gets the schema, the value, its path and the plan, and gives a message if the value does not fit ----------------

local validate

local function fits(schema, value, path, plan) return validate(schema, value, path, plan) == nil end

local function check_type(schema, value, path)
  local wanted, kind = schema.type, kind_of(value)
  if wanted == nil then return end
  local list = type(wanted) == "table" and wanted or {wanted}
  for i = 1, #list do
    local name = list[i]
    if name == kind or (name == "integer" and is_integer(value)) then return end
  end
  return format("%s: expected %s, got %s", path, concat(list, " or "), kind)
end

local function check_values(schema, value, path)
  if schema.const ~= nil and not equal(schema.const, value) then return format("%s: expected %s", path, shown(schema.const)) end
  local enum = schema.enum
  if enum == nil then return end
  for i = 1, #enum do
    if equal(enum[i], value) then return end
  end
  return format("%s: expected one of %s", path, shown(enum))
end

local function check_number(schema, value, path)
  local least, most, above, below = schema.minimum, schema.maximum, schema.exclusiveMinimum, schema.exclusiveMaximum
  if least and value < least then return format("%s: must be at least %s", path, least) end
  if most and value > most then return format("%s: must be at most %s", path, most) end
  if above and value <= above then return format("%s: must be above %s", path, above) end
  if below and value >= below then return format("%s: must be below %s", path, below) end
  local unit = schema.multipleOf
  if unit then
    local times = value / unit
    -- Of numbers with fractions the quotient is seldom exact.
    if abs(times - floor(times + 0.5)) > 1e-9 * (abs(times) > 1 and abs(times) or 1) then
      return format("%s: must be a multiple of %s", path, unit)
    end
  end
end

local function check_string(schema, value, path, plan)
  local least, most, pattern = schema.minLength, schema.maxLength, schema.pattern
  if least or most then
    local length = len(value, 1, -1, true) or #value
    if least and length < least then return format("%s: must have at least %d characters", path, least) end
    if most and length > most then return format("%s: must have at most %d characters", path, most) end
  end
  if pattern and not regex_matches(plan.patterns[pattern], value) then return format("%s: must match %s", path, pattern) end
end

local function check_contains(schema, value, path, plan)
  local count = 0
  for i = 1, #value do
    if fits(schema.contains, value[i], path, plan) then count = count + 1 end
  end
  local least, most = schema.minContains or 1, schema.maxContains
  if count < least then return format("%s: must contain at least %d item(s) that fit", path, least) end
  if most and count > most then return format("%s: must contain at most %d item(s) that fit", path, most) end
end

local function check_unique(value, path)
  local seen = {}
  for i = 1, #value do
    local key = identity(value[i])
    if seen[key] then return format("%s: items %d and %d are equal", path, seen[key] - 1, i - 1) end
    seen[key] = i
  end
end

local function check_array(schema, value, path, plan)
  local count = #value
  if schema.minItems and count < schema.minItems then return format("%s: must have at least %d item(s)", path, schema.minItems) end
  if schema.maxItems and count > schema.maxItems then return format("%s: must have at most %d item(s)", path, schema.maxItems) end
  local first = schema.prefixItems or {}
  for i = 1, count do
    local schema_of = first[i]
    if schema_of == nil then schema_of = schema.items end
    if schema_of ~= nil then
      local wrong = validate(schema_of, value[i], path .. "[" .. i - 1 .. "]", plan)
      if wrong then return wrong end
    end
  end
  if schema.uniqueItems then
    local wrong = check_unique(value, path)
    if wrong then return wrong end
  end
  if schema.contains ~= nil then return check_contains(schema, value, path, plan) end
end

local function check_names(schema, value, path)
  local required = schema.required or {}
  for i = 1, #required do
    if value[required[i]] == nil then return format("%s: is required", member(path, required[i])) end
  end
  for key, list in next, schema.dependentRequired or {} do
    for i = 1, value[key] ~= nil and #list or 0 do
      if value[list[i]] == nil then return format("%s: is required if there is %s", member(path, list[i]), key) end
    end
  end
end

-- The schemas that are for one property. Whether there was any is told too.
local function check_property(schema, key, inner, path, plan)
  local wrong, known
  if schema.properties and schema.properties[key] ~= nil then
    known, wrong = true, validate(schema.properties[key], inner, path, plan)
    if wrong then return wrong end
  end
  for pattern, schema_of in next, schema.patternProperties or {} do
    if regex_matches(plan.patterns[pattern], key) then
      known, wrong = true, validate(schema_of, inner, path, plan)
      if wrong then return wrong end
    end
  end
  if not known and schema.additionalProperties ~= nil then
    if schema.additionalProperties == false then return path .. ": is not known" end
    return validate(schema.additionalProperties, inner, path, plan)
  end
end

local function sorted_keys(value)
  local keys = {}
  for key in next, value do keys[#keys + 1] = type(key) == "string" and key or tostring(key) end
  sort(keys)
  return keys
end

local function check_object(schema, value, path, plan)
  local keys = sorted_keys(value)
  if schema.minProperties and #keys < schema.minProperties then return format("%s: must have at least %d properties", path, schema.minProperties) end
  if schema.maxProperties and #keys > schema.maxProperties then return format("%s: must have at most %d properties", path, schema.maxProperties) end
  local wrong = check_names(schema, value, path)
  if wrong then return wrong end
  for i = 1, #keys do
    local key = keys[i]
    if schema.propertyNames ~= nil then
      wrong = validate(schema.propertyNames, key, member(path, key), plan)
      if wrong then return wrong .. " (as a name)" end
    end
    wrong = check_property(schema, key, value[key], member(path, key), plan)
    if wrong then return wrong end
  end
end

local function check_combined(schema, value, path, plan)
  local all, any, one = schema.allOf or {}, schema.anyOf, schema.oneOf
  for i = 1, #all do
    local wrong = validate(all[i], value, path, plan)
    if wrong then return wrong end
  end
  local first
  for i = 1, any and #any or 0 do
    local wrong = validate(any[i], value, path, plan)
    if not wrong then
      any = nil
      break
    end
    first = first or wrong
  end
  if any then return format("%s: fits none of the %d schemas of anyOf (%s)", path, #any, first) end
  local count = 0
  for i = 1, one and #one or 0 do
    if fits(one[i], value, path, plan) then count = count + 1 end
  end
  if one and count ~= 1 then return format("%s: must fit exactly one of the %d schemas of oneOf, and fits %d", path, #one, count) end
  if schema["not"] ~= nil and fits(schema["not"], value, path, plan) then return path .. ": fits what it must not" end
  if schema["if"] ~= nil then
    local branch = fits(schema["if"], value, path, plan) and "then" or "else"
    if schema[branch] ~= nil then return validate(schema[branch], value, path, plan) end
  end
end

local BY_KIND = {number = check_number, string = check_string, array = check_array, object = check_object}

validate = function(schema, value, path, plan)
  if schema == true then return end
  if schema == false then return path .. ": nothing is allowed here" end
  local own = BY_KIND[kind_of(value)]
  return check_type(schema, value, path)
    or check_values(schema, value, path)
    or (own and own(schema, value, path, plan))
    or (schema["$ref"] and validate(plan.targets[schema["$ref"]], value, path, plan))
    or check_combined(schema, value, path, plan)
end

-- nil if the value fits, else what is wrong with it.
function shared.schema_mismatch(plan, value) return validate(plan.root, value, "$", plan) end
