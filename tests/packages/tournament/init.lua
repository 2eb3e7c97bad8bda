-- Pairs are compared until one is left
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "tournament", version = "0.1.0", description = "Pairs are compared until one is left", category = "selection" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local left = ctx.candidates or { "a", "b", "c", "d" }
  while #left > 1 do
    local pairs_of = {}
    for i = 1, #left, 2 do pairs_of[#pairs_of + 1] = { left[i], left[i + 1] } end
    local winners = alc.parallel(pairs_of, function(pair)
      return "Which is better, first or second? " .. pair[1] .. " or " .. (pair[2] or pair[1])
    end)
    for i, said in ipairs(winners) do
      winners[i] = said:find("second") and (pairs_of[i][2] or pairs_of[i][1]) or pairs_of[i][1]
    end
    left = winners
  end
  ctx.result = { answer = left[1] }
  return ctx
end

M.run = S.instrument(M, "run")
return M
