-- An error of the model is an error that a script handles
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "survives", version = "0.1.0", description = "An error of the model is an error that a script handles", category = "correction" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local ok, said = pcall(alc.llm, "Fail please: " .. ctx.task)
  if not ok then
    alc.log("warn", "the model failed: " .. tostring(said))
    said = alc.llm("Try again: " .. ctx.task)
  end
  ctx.result = { answer = said, failed = not ok }
  return ctx
end

M.run = S.instrument(M, "run")
return M
