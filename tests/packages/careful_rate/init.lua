-- How sure one can be of a rate of yes
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "careful_rate", version = "0.1.0", description = "How sure one can be of a rate of yes", category = "attribution" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local yes, n = 0, 6
  local said = alc.parallel({ 1, 2, 3, 4, 5, 6 }, function(i) return "Yes or no, draw " .. i .. ": " .. ctx.task end)
  for _, answer in ipairs(said) do
    if answer:match("^[Yy]es") then yes = yes + 1 end
  end
  local interval = alc.math.wilson_ci(yes, n)
  ctx.result = { rate = yes / n, lower = interval.lower, upper = interval.upper }
  return ctx
end

M.run = S.instrument(M, "run")
return M
