-- Reflect: write a draft, let a critic look at it, and write it again, until the critic is content.
--
-- Each step needs the one before it, so there is one question a round. The critic gives a score first and its reasons after it: a model that
-- has to say a number is harder to please than one that is asked whether it likes what it sees.

local M = {}

M.meta = {
  name = "reflect",
  version = "1.0.0",
  description = "A draft, a critique and a revision, again and again until it is good enough",
  category = "refinement",
}

M.spec = {
  entries = {
    run = {
      input = {
        task = { type = "string", required = true, about = "what is to be written" },
        rounds = { type = "integer", default = 3, about = "how many critiques at most" },
        good = { type = "integer", default = 8, about = "the score, from 1 to 10, that is good enough" },
      },
      result = {
        answer = { type = "string", about = "the best version" },
        score = { type = "integer", about = "what the critic gave it" },
        good = { type = "boolean", about = "whether that was good enough" },
        history = { type = "array", about = "each version with its `score` and `critique`" },
      },
    },
  },
}

M.defaults = { rounds = 3, good = 8 }

local CRITIC = "You are a strict reviewer. Praise nothing. Say what is wrong, missing or unclear, and how it would be better."

local function criticised(task, draft)
  local critique = alc.llm(
    "Task:\n" .. task .. "\n\nDraft:\n" .. draft .. "\n\n"
      .. "On the first line give a score from 1 to 10, and nothing else. Then say what has to change.",
    { system = CRITIC }
  )
  return alc.parse_score(critique), critique
end

local function revised(task, draft, critique)
  return alc.llm(
    "Task:\n" .. task .. "\n\nDraft:\n" .. draft .. "\n\nCritique:\n" .. critique .. "\n\n"
      .. "Write it again so that the critique does not hold any more. Give the new version only."
  )
end

function M.run(ctx)
  local task = ctx.task or error("reflect: ctx.task is required")
  local knobs = alc.tuning(M.defaults, ctx)
  local history, best = {}, nil
  local draft = alc.llm(task)

  for round = 1, knobs.rounds do
    alc.progress(round, knobs.rounds, "critique " .. round)
    local score, critique = criticised(task, draft)
    history[round] = { text = draft, score = score, critique = critique }
    if not best or score > best.score then best = history[round] end
    if score >= knobs.good then break end
    -- Another revision is worth its price only if somebody can look at it.
    if round == knobs.rounds or not alc.budget_check() then break end
    alc.log("info", "round " .. round .. ": " .. score .. " of 10, not good enough")
    draft = revised(task, draft, critique)
  end

  best = best or { text = draft }
  ctx.result = { answer = best.text, score = best.score, good = (best.score or 0) >= knobs.good, history = history }
  return ctx
end

return M
