-- Parts of a task, each answered by another package
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "decomposes", version = "0.1.0", description = "Parts of a task, each answered by another package", category = "orchestration" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

local plain = require("plain_answer")
function M.run(ctx)
  local plan = alc.json_decode(alc.llm("Plan as JSON: " .. ctx.task))
  local parts = alc.map(plan.steps, function(step) return plain.run({ task = step }).result end)
  ctx.result = { answer = table.concat(parts, "; "), parts = parts }
  return ctx
end

M.run = S.instrument(M, "run")
return M
