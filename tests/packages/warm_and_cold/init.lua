-- Options that a model may heed: temperature and role
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "warm_and_cold", version = "0.1.0", description = "Options that a model may heed: temperature and role", category = "generation" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local warm = alc.llm(ctx.task, { temperature = 1.2, role = "poet" })
  local cold = alc.llm(ctx.task, { temperature = 0, role = "clerk", stop = { "END" } })
  ctx.result = { warm = warm, cold = cold }
  return ctx
end

M.run = S.instrument(M, "run")
return M
