-- A frame: others bring the functions, it threads a state through them.
local M = {}
M.meta = { name = "flow_frame", version = "0.1.0", description = "A state through named stages", category = "combinator" }

function M.flow(stages)
  return function(state)
    for _, stage in ipairs(stages) do
      alc.log("debug", "stage " .. stage.name)
      state = stage.run(state)
    end
    return state
  end
end

function M.run(ctx)
  local go = M.flow({
    { name = "ask", run = function(state) state.said = alc.llm(state.task) return state end },
    { name = "shout", run = function(state) state.result = state.said:upper() return state end },
  })
  return go(ctx)
end

return M
