-- Asks for JSON until it is some
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "patient_json", version = "0.1.0", description = "Asks for JSON until it is some", category = "extraction" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local found, raw = alc.llm_json("Extract as broken JSON first: " .. ctx.task)
  ctx.result = { fields = found, raw = raw }
  return ctx
end

M.run = S.instrument(M, "run")
return M
