-- Settings of a strategy: its defaults, and what the caller gives instead.
local alc, shared = ...
local type, next, null = type, next, alc.null
local array, is_list, log, text_of = alc.array, shared.is_list, shared.log, shared.text_of

-- Tables among the defaults are copied, so that what a script changes in its settings is not changed for the next.
local function copied(value, seen)
  if type(value) ~= "table" then return value end
  if seen[value] then return seen[value] end
  local result = is_list(value) and array() or {}
  seen[value] = result
  for key, inner in next, value do result[key] = copied(inner, seen) end
  return result
end

-- Merged key by key are only tables with names. A list is replaced, and so is an empty table, which may be meant as either.
local function has_names(value) return type(value) == "table" and next(value) ~= nil and #value == 0 end

local function merged(defaults, given)
  local result = {}
  for key, default in next, defaults do
    if key ~= "_schema" then
      local value = given[key]
      if value == nil or value == null then
        result[key] = copied(default, {})
      elseif has_names(default) and type(value) == "table" then
        result[key] = merged(default, value)
      else
        result[key] = value
      end
    end
  end
  return result
end

function alc.tuning(defaults, ctx, options)
  if type(defaults) ~= "table" then return defaults end
  local given = type(ctx) == "table" and ctx or {}
  local prefix = options ~= nil and options ~= null and options.prefix
  if prefix then
    local own = given[prefix]
    if type(own) == "table" then
      given = own
    elseif own ~= nil and own ~= null then
      log("warn", "alc.tuning: ctx." .. text_of(prefix) .. " must be a table, got " .. type(own) .. "; the defaults are used")
      given = {}
    end
  end
  return merged(defaults, given)
end
