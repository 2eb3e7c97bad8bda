-- Self-consistency: ask the same question several times, and take the answer that comes most often.
--
-- A model that thinks aloud goes wrong in many ways, and right in few: what several attempts agree on is more often right than any one of
-- them. The attempts do not know of each other, so all of them are asked in one round.

local M = {}

M.meta = {
  name = "self_consistency",
  version = "1.0.0",
  description = "Several independent attempts in one round; the most frequent answer wins",
  category = "aggregation",
}

M.spec = {
  entries = {
    run = {
      input = {
        task = { type = "string", required = true, about = "the question" },
        n = { type = "integer", default = 5, about = "how many attempts" },
        temperature = { type = "number", default = 0.8, about = "for whoever answers: attempts should differ" },
        extract = { type = "string", default = "", about = "if given, a second round that asks this of each attempt" },
      },
      result = {
        answer = { type = "string", about = "what most attempts say" },
        count = { type = "integer", about = "how many say so" },
        total = { type = "integer" },
        attempts = { type = "array", about = "each with its `text` and its `answer`" },
      },
    },
  },
}

M.defaults = { n = 5, temperature = 0.8, extract = "" }

local SYSTEM = [[Think step by step. End with a line that begins with "Answer:" and has nothing but the answer after it.]]

-- What comes after the last "Answer:", else the last line; without quotes, stars and full stops around it.
local function answer_in(text)
  local found = text:match(".*[Aa]nswer:%s*([^\n]+)") or text:match("([^\n]+)%s*$") or ""
  return (found:gsub("^[%s*`\"']+", ""):gsub("[%s*`\"'.]+$", ""))
end

function M.run(ctx)
  local task = ctx.task or error("self_consistency: ctx.task is required")
  local knobs = alc.tuning(M.defaults, ctx)
  if math.type(knobs.n) ~= "integer" or knobs.n < 1 then error("self_consistency: n must be a whole number, 1 or more") end

  local numbers = {}
  for i = 1, knobs.n do numbers[i] = i end

  -- One round: whoever answers gets all prompts at once.
  local texts = alc.parallel(numbers, function(i)
    return task .. "\n\n(Attempt " .. i .. " of " .. knobs.n .. ": think it through on your own.)"
  end, { system = SYSTEM, temperature = knobs.temperature })

  -- The answers are in the texts, or are asked for in a second round.
  local answers
  if knobs.extract == "" then
    answers = alc.map(texts, answer_in)
  else
    answers = alc.parallel(texts, function(text) return knobs.extract .. "\n\n" .. text end)
  end

  -- Votes are counted without regard to case, and the winner is shown as it was first written.
  local votes = alc.map(answers, function(answer) return answer:lower():match("^%s*(.-)%s*$") end)
  local best = alc.vote(votes)
  local attempts, answer = {}, nil
  for i, text in ipairs(texts) do
    attempts[i] = { text = text, answer = answers[i] }
    if not answer and votes[i] == best.winner then answer = answers[i] end
  end

  alc.log("info", best.count .. " of " .. best.total .. " attempts agree")
  ctx.result = { answer = answer, count = best.count, total = best.total, attempts = attempts }
  return ctx
end

return M
