-- The median of several scores, and how far they spread
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "middle_score", version = "0.1.0", description = "The median of several scores, and how far they spread", category = "aggregation" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local scores = alc.parallel({ 1, 2, 3, 4, 5 }, function(i) return "Rate from 1 to 10, judge " .. i .. ": " .. ctx.task end, {
    post_fn = function(said) return alc.parse_score(said, 1) end,
  })
  ctx.result = {
    median = alc.math.median(scores),
    low = alc.math.percentile(scores, 10),
    high = alc.math.percentile(scores, 90),
  }
  return ctx
end

M.run = S.instrument(M, "run")
return M
