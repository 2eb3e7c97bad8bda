-- A small model first, a large one if that is unsure
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "escalates", version = "0.1.0", description = "A small model first, a large one if that is unsure", category = "orchestration" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local said = alc.llm(ctx.task, { model = "small", max_tokens = 50 })
  local sure = alc.parse_score(alc.llm("Rate from 1 to 10 how sure this is: " .. said, { model = "small" }))
  if sure < 7 then said = alc.llm(ctx.task, { model = "large" }) end
  ctx.result = { answer = said, escalated = sure < 7 }
  return ctx
end

M.run = S.instrument(M, "run")
return M
