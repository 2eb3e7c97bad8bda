-- Sends a task to the kind of answer that fits
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "routes", version = "0.1.0", description = "Sends a task to the kind of answer that fits", category = "routing" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

local kinds = { math = "Calculate: ", prose = "Write: " }
function M.run(ctx)
  local kind = alc.llm("Is this math or prose? " .. ctx.task):lower():match("math") or "prose"
  ctx.result = { kind = kind, answer = alc.llm(kinds[kind] .. ctx.task) }
  return ctx
end

M.run = S.instrument(M, "run")
return M
