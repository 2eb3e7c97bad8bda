-- Asks from within a coroutine of its own: a generator of questions.
local M = {}
M.meta = { name = "closed_coroutine", version = "0.1.0", description = "A generator that asks", category = "simulation" }

function M.run(ctx)
  local answers = coroutine.wrap(function()
    for i = 1, 3 do coroutine.yield(alc.llm("Turn " .. i .. ": " .. ctx.task)) end
  end)
  local said = {}
  for answer in answers do said[#said + 1] = answer end
  ctx.result = said
  return ctx
end

return M
