-- Three views of one question in one batch
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "batch_views", version = "0.1.0", description = "Three views of one question in one batch", category = "exploration" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local views = { "an optimist", "a pessimist", "an engineer" }
  local items = {}
  for i, who in ipairs(views) do
    items[i] = { prompt = "As " .. who .. ": " .. ctx.task, system = "You are " .. who, max_tokens = 120 }
  end
  local said = alc.llm_batch(items)
  ctx.result = { views = said, summary = alc.llm("Combine: " .. table.concat(said, " / ")) }
  return ctx
end

M.run = S.instrument(M, "run")
return M
