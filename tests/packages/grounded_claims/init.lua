-- Checks claims against what is known
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "grounded_claims", version = "0.1.0", description = "Checks claims against what is known", category = "validation" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local claims = alc.chunk(ctx.task, { mode = "lines", size = 1 })
  local verdicts = alc.map(claims, function(claim, i)
    return { claim = claim, verdict = alc.llm("Claim " .. i .. ": " .. claim, { grounded = true }) }
  end)
  ctx.result = { verdicts = verdicts, n = #verdicts }
  return ctx
end

M.run = S.instrument(M, "run")
return M
