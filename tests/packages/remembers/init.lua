-- Counts in the state how often a task was seen
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "remembers", version = "0.1.0", description = "Counts in the state how often a task was seen", category = "substrate" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local seen = (alc.state.get("seen:" .. ctx.task) or 0) + 1
  alc.state.set("seen:" .. ctx.task, seen)
  ctx.result = { answer = seen > 1 and "again" or alc.llm(ctx.task), seen = seen }
  return ctx
end

M.run = S.instrument(M, "run")
return M
