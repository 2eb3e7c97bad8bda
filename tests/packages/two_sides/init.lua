-- A case for, a case against, a verdict
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "two_sides", version = "0.1.0", description = "A case for, a case against, a verdict", category = "adversarial" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local sides = alc.llm_batch({ { prompt = "For: " .. ctx.task }, { prompt = "Against: " .. ctx.task } })
  ctx.result = { answer = alc.llm("Judge: " .. sides[1] .. " against " .. sides[2]), sides = sides }
  return ctx
end

M.run = S.instrument(M, "run")
return M
