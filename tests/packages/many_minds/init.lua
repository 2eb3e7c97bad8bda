-- Samples in one round, the most frequent wins
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "many_minds", version = "0.1.0", description = "Samples in one round, the most frequent wins", category = "aggregation" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local n = ctx.n or 5
  local items = {}
  for i = 1, n do items[i] = i end
  local answers = alc.parallel(items, function(i) return "Sample " .. i .. ": " .. ctx.task end, { max_tokens = 50 })
  local counts, best = {}, nil
  for _, answer in ipairs(answers) do
    counts[answer] = (counts[answer] or 0) + 1
    if not best or counts[answer] > counts[best] then best = answer end
  end
  ctx.result = { answer = best, votes = counts[best], n = n }
  return ctx
end

M.run = S.instrument(M, "run")
return M
