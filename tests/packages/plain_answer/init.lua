-- One question, one answer
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "plain_answer", version = "0.1.0", description = "One question, one answer", category = "reasoning" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  alc.log("info", "plain_answer: " .. ctx.task)
  ctx.result = alc.llm(ctx.task, { system = "Answer in one line.", max_tokens = 200 })
  return ctx
end

M.run = S.instrument(M, "run")
return M
