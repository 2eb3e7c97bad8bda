-- A package of several files
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "has_parts", version = "0.1.0", description = "A package of several files", category = "combinator" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

local rules = require("has_parts.rules")
local words = require("has_parts.words.plain")
function M.run(ctx)
  ctx.result = rules.join(words.split(alc.llm("Say three words: " .. ctx.task)))
  return ctx
end

M.run = S.instrument(M, "run")
return M
