-- A text in overlapping pieces, then one summary of summaries
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "long_text", version = "0.1.0", description = "A text in overlapping pieces, then one summary of summaries", category = "preprocessing" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local pieces = alc.chunk(ctx.task, { mode = "chars", size = 40, overlap = 10 })
  local parts = alc.parallel(pieces, function(piece) return "Summarise: " .. piece end)
  ctx.result = alc.reduce(parts, function(all, part) return all .. " " .. part end)
  return ctx
end

M.run = S.instrument(M, "run")
return M
