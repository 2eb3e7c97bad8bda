-- Tree of thoughts: think in small steps, try several at each, and go on with the best.
--
-- Each try is a fork: a session of its own, with the memory that this one has at that moment, that asks, is answered, and ends. So a branch may
-- ask as often as it likes without holding up the others, its questions and its figures are its own, and whoever looks at the run later finds
-- every branch, also those that were given up.

local M = {}

M.meta = {
  name = "tree_of_thoughts",
  version = "1.0.0",
  description = "Several next steps at each step, each in a fork of its own; the best are gone on with",
  category = "exploration",
}

M.spec = {
  entries = {
    run = {
      input = {
        task = { type = "string", required = true, about = "the problem" },
        breadth = { type = "integer", default = 3, about = "how many next steps are tried for each way of thinking" },
        keep = { type = "integer", default = 2, about = "how many ways of thinking are gone on with" },
        depth = { type = "integer", default = 2, about = "how many steps a way of thinking has" },
      },
      result = {
        answer = { type = "string" },
        thoughts = { type = "array", about = "the steps that led to it" },
        score = { type = "integer", about = "that of the last step, from 1 to 10" },
        explored = { type = "integer", about = "how many steps were tried in all" },
      },
    },
  },
}

M.defaults = { breadth = 3, keep = 2, depth = 2 }

local function so_far(task, thoughts)
  local lines = { "Problem:\n" .. task }
  for i, thought in ipairs(thoughts) do lines[#lines + 1] = "Step " .. i .. ":\n" .. thought end
  return table.concat(lines, "\n\n")
end

-- What a branch does: one more step, and what it is worth.
local function grown(task, thoughts, try)
  local before = so_far(task, thoughts)
  local thought = alc.llm(
    before .. "\n\nWrite the next step, in a few sentences. Do not solve the whole problem. (This is try " .. try .. ": find a way of its own.)"
  )
  local path = table.move(thoughts, 1, #thoughts, 1, {})
  path[#path + 1] = thought
  local verdict = alc.llm(so_far(task, path) .. "\n\nHow promising is this, from 1 to 10? Give the number only.")
  return { thoughts = path, score = alc.parse_score(verdict) }
end

function M.run(ctx)
  local task = ctx.task or error("tree_of_thoughts: ctx.task is required")
  local knobs = alc.tuning(M.defaults, ctx)
  local ways, explored = { { thoughts = {}, score = 0 } }, 0

  for step = 1, knobs.depth do
    -- A branch for each next step. Functions see the variables around them, in the fork as well.
    local branches = {}
    for _, way in ipairs(ways) do
      for try = 1, knobs.breadth do
        branches[#branches + 1] = function() return grown(task, way.thoughts, try) end
      end
    end

    -- A branch that fails is left out; if all do there is nothing to go on with.
    local found = {}
    for i, one in ipairs(alc.fork(branches, ctx)) do
      if one.ok then
        one.result.number = i
        found[#found + 1] = one.result
      else
        alc.log("warn", "a branch failed: " .. tostring(one.error))
      end
    end
    if #found == 0 then error("tree_of_thoughts: no branch came to anything in step " .. step) end

    table.sort(found, function(a, b)
      if a.score ~= b.score then return a.score > b.score end
      return a.number < b.number
    end)
    ways = table.move(found, 1, math.min(knobs.keep, #found), 1, {})
    explored = explored + #branches
    alc.progress(step, knobs.depth, "the best of " .. #branches .. " has " .. ways[1].score .. " of 10")
  end

  local best = ways[1]
  local answer = alc.llm(so_far(task, best.thoughts) .. "\n\nNow solve the problem along these steps. Give the answer only.")
  ctx.result = { answer = answer, thoughts = best.thoughts, score = best.score, explored = explored }
  return ctx
end

return M
