-- A plan as JSON, then each of its steps
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "json_plan", version = "0.1.0", description = "A plan as JSON, then each of its steps", category = "planning" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local plan = alc.json_decode(alc.llm("Plan as JSON: " .. ctx.task, { max_tokens = 400 }))
  local done = {}
  for i, step in ipairs(plan.steps) do
    done[i] = { step = step, outcome = alc.llm("Do this step: " .. step) }
  end
  ctx.result = { answer = done[#done].outcome, done = done, plan = alc.json_encode(plan) }
  return ctx
end

M.run = S.instrument(M, "run")
return M
