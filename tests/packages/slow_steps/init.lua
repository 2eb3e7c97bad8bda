-- Thinks in numbered steps, one after the other
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "slow_steps", version = "0.1.0", description = "Thinks in numbered steps, one after the other", category = "reasoning" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local steps = {}
  for i = 1, ctx.depth or 3 do
    local before = table.concat(steps, "\n")
    steps[i] = alc.llm("Task: " .. ctx.task .. "\n" .. before .. "\nStep " .. i .. ":", { max_tokens = 100 })
    alc.log("debug", "step " .. i)
  end
  ctx.result = { conclusion = steps[#steps], steps = steps }
  return ctx
end

M.run = S.instrument(M, "run")
return M
