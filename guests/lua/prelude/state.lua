-- Values that outlive the session: the module `state`, in the namespace that the host names in ctx._ns.
local alc = ...
local type, require, rawget, globals = type, require, rawget, _G

-- Looked up at each call: an error that the module is not granted belongs there, and so does a namespace that the script changes.
local function module()
  local state, ctx = require("state"), rawget(globals, "ctx")
  local name = type(ctx) == "table" and rawget(ctx, "_ns")
  if type(name) ~= "string" or name == "" or name == "default" then return state end
  return state.namespace(name)
end

alc.state = {}
local names = {"get", "set", "has", "keys", "delete", "set_nx", "incr", "update", "compare_and_set"}
for i = 1, #names do
  local name = names[i]
  alc.state[name] = function(...) return module()[name](...) end
end
