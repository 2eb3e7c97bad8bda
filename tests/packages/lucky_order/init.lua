-- Asks in a random order that is the same for the same seed
local S = require("alc_shapes")
local T = S.T

local M = {}
M.meta = { name = "lucky_order", version = "0.1.0", description = "Asks in a random order that is the same for the same seed", category = "exploration" }
M.spec = { entries = { run = { input = T.shape({ task = T.string }), result = T.any } } }

function M.run(ctx)
  local rng = alc.math.rng_create(ctx.seed or 7)
  local order = {}
  for i = 1, 4 do order[i] = { i = i, key = alc.math.rng_float(rng) } end
  table.sort(order, function(a, b) return a.key < b.key end)
  local said = {}
  for at, item in ipairs(order) do said[at] = alc.llm("Part " .. item.i .. " of " .. ctx.task) end
  ctx.result = { order = alc.map(order, function(item) return item.i end), said = said }
  return ctx
end

M.run = S.instrument(M, "run")
return M
