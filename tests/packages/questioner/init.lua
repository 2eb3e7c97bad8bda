-- Asks the person first what is not clear
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "questioner", version = "0.1.0", description = "Asks the person first what is not clear", category = "intent" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local clear = alc.specify("What exactly is meant by: " .. ctx.task, { max_tokens = 60 })
  ctx.result = alc.llm("Task: " .. ctx.task .. "\nClarified: " .. clear)
  return ctx
end

M.run = S.instrument(M, "run")
return M
