-- Drafts in one round, scores in a second, the best is taken
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "scored_drafts", version = "0.1.0", description = "Drafts in one round, scores in a second, the best is taken", category = "selection" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local drafts = alc.parallel({ "short", "long", "bold" }, function(manner)
    return { prompt = "Write a " .. manner .. " draft: " .. ctx.task, max_tokens = 300, system = "You write." }
  end)
  local scores = alc.parallel(drafts, function(draft) return "Rate from 1 to 10: " .. draft end, {
    max_tokens = 10,
    post_fn = function(said) return alc.parse_score(said) end,
  })
  local best = 1
  for i, score in ipairs(scores) do
    if score > scores[best] then best = i end
  end
  ctx.result = { answer = drafts[best], score = scores[best] }
  return ctx
end

M.run = S.instrument(M, "run")
return M
