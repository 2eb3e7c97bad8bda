-- Takes JSON out of whatever was said
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "loose_json", version = "0.1.0", description = "Takes JSON out of whatever was said", category = "extraction" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local said = alc.llm("Explain, then give fenced JSON: " .. ctx.task)
  local found = alc.json_extract(said)
  if not found then error("no JSON in the answer") end
  ctx.result = found
  return ctx
end

M.run = S.instrument(M, "run")
return M
