-- Shapes of what strategies take and give, as far as the packages beside this one use them. Values are checked only if somebody asks.
local M = {}
M.meta = { name = "alc_shapes", version = "0.1.0", description = "Shapes of inputs and results", category = "substrate" }

local T = {}
for _, kind in ipairs({ "string", "number", "boolean", "table", "any" }) do
  T[kind] = { kind = "prim", prim = kind }
end
local function wrapped(kind)
  return function(inner) return { kind = kind, inner = inner } end
end
T.optional, T.array_of, T.map_of = wrapped("optional"), wrapped("array_of"), wrapped("map_of")
function T.shape(fields) return { kind = "shape", fields = fields, open = true } end
function T.one_of(values) return { kind = "one_of", values = values } end
M.T = T

local function fits(value, shape)
  if shape.kind == "prim" then return shape.prim == "any" or type(value) == shape.prim end
  if shape.kind == "optional" then return value == nil or fits(value, shape.inner) end
  if type(value) ~= "table" then return false end
  if shape.kind == "shape" then
    for name, field in pairs(shape.fields) do
      if not fits(value[name], field) then return false, name end
    end
  end
  return true
end

function M.check(value, shape) return fits(value, shape) end

-- Gives the entry of a module back, with its input checked.
function M.instrument(module, entry)
  local run, spec = module[entry], module.spec.entries[entry]
  return function(ctx)
    local ok, name = fits(ctx, spec.input)
    if not ok then error(module.meta.name .. ": ctx." .. tostring(name) .. " does not fit", 2) end
    return run(ctx)
  end
end

return M
