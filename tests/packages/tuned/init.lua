-- Knobs with defaults, which a caller may turn
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "tuned", version = "0.1.0", description = "Knobs with defaults, which a caller may turn", category = "meta" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

M.defaults = { rounds = 2, style = { tone = "dry", length = "short" }, _schema = { rounds = "integer" } }
function M.run(ctx)
  local knobs = alc.tuning(M.defaults, ctx, { prefix = "tuned" })
  local said
  for round = 1, knobs.rounds do
    said = alc.llm("Round " .. round .. ", " .. knobs.style.tone .. " and " .. knobs.style.length .. ": " .. ctx.task)
  end
  ctx.result = { answer = said, knobs = knobs }
  return ctx
end

M.run = S.instrument(M, "run")
return M
