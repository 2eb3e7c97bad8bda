-- Draft, critique, revision, until the critic is content
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "critic_loop", version = "0.1.0", description = "Draft, critique, revision, until the critic is content", category = "refinement" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local draft = alc.llm("Draft: " .. ctx.task)
  for round = 1, ctx.max_rounds or 3 do
    local score = alc.parse_score(alc.llm("Rate from 1 to 10, round " .. round .. ": " .. draft))
    alc.log("info", ("round %d: %d"):format(round, score))
    if score >= 8 then
      ctx.result = { answer = draft, rounds = round }
      return ctx
    end
    draft = alc.llm("Revise: " .. draft)
  end
  ctx.result = { answer = draft, rounds = ctx.max_rounds or 3 }
  return ctx
end

M.run = S.instrument(M, "run")
return M
