-- Writes a card of what came out, with the samples
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "keeps_score", version = "0.1.0", description = "Writes a card of what came out, with the samples", category = "evaluation" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local samples, passed = {}, 0
  for i = 1, 3 do
    local said = alc.llm("Yes or no, case " .. i .. ": " .. ctx.task)
    samples[i] = { case = i, said = said }
    if said:lower():find("yes", 1, true) then passed = passed + 1 end
  end
  local card = alc.card.create({
    pkg = { name = "keeps_score" },
    scenario = { name = "three cases" },
    params = { task = ctx.task },
    stats = { pass_rate = passed / 3, n = 3 },
  })
  alc.card.write_samples(card.card_id, samples)
  alc.stats.record("pass_rate", passed / 3)
  ctx.result = { card_id = card.card_id, passed = passed }
  return ctx
end

M.run = S.instrument(M, "run")
return M
