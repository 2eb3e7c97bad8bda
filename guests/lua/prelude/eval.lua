-- A strategy tried on the cases of a scenario, one after the other, and graded.
local alc, shared = ...
local type, pcall, require, format, find = type, pcall, require, string.format, string.find
local array, encode, time, card, null = alc.array, alc.json_encode, alc.time, alc.card, alc.null
local raise, copy, text_of, bindings, grade, report = shared.raise, shared.copy, shared.text_of, shared.bindings, shared.grade, shared.report

local ANSWERS = {"answer", "summary", "output", "text"}
local FULL = 1 - 1e-6 -- every grader with a weight says 1

-- ---- the scenario -------------------------------------------------------------------------------------------------------------------

local function resolved(scenario)
  if scenario == nil or scenario == null then raise("alc.eval: scenario is required") end
  if type(scenario) == "table" then return scenario end
  if type(scenario) ~= "string" then raise("alc.eval: scenario must be a string or table, got " .. type(scenario)) end
  local ok, found = pcall(require, scenario)
  if not ok then raise(format("alc.eval: could not resolve scenario '%s': %s", scenario, text_of(found))) end
  if type(found) ~= "table" then raise(format("alc.eval: scenario resolved to %s, expected table", type(found))) end
  return found
end

local function cases_of(scenario)
  local cases = scenario.cases
  if type(cases) ~= "table" then raise("alc.eval: scenario must have cases") end
  for i = 1, #cases do
    local case = cases[i]
    if type(case) ~= "table" or case.input == nil then raise(format("alc.eval: case #%d must have an 'input' field", i)) end
  end
  return cases
end

-- ---- one case -----------------------------------------------------------------------------------------------------------------------

-- What a strategy has said: its result, or the usual field of it that is a text, or all of it as JSON.
local function text_in(made)
  local result = made
  if type(made) == "table" and made.result ~= nil then result = made.result end
  if type(result) == "table" then
    for i = 1, #ANSWERS do
      if type(result[ANSWERS[i]]) == "string" then return result[ANSWERS[i]] end
    end
    return encode(result)
  end
  if result == nil or result == null then return "" end
  return text_of(result)
end

local function run(strategy, ctx) return text_in(require(strategy).run(ctx)) end

local function tags_of(case)
  local tags = case.tags
  if type(tags) == "string" then return array({tags}) end
  return type(tags) == "table" and tags or nil
end

local function try(strategy, options, case, graders, i)
  local ctx, began = copy(options, {task = case.input}), time()
  local ok, text = pcall(run, strategy, ctx)
  local answer = {text = ok and text or "", case = case, input = case.input, expected = case.expected, elapsed_ms = (time() - began) * 1000}
  local marks, sum, weights = array(), 0, 0
  for j = 1, #graders do
    local score = grade(graders[j], answer)
    marks[j] = {grader = graders[j].name, score = score, weight = graders[j].weight}
    sum, weights = sum + score * graders[j].weight, weights + graders[j].weight
  end
  local score = ok and weights > 0 and sum / weights or 0
  return {
    index = i,
    name = case.name,
    input = case.input,
    expected = case.expected,
    output = answer.text,
    error = not ok and text_of(text) or nil,
    score = score,
    passed = score >= FULL,
    graders = marks,
    elapsed_ms = answer.elapsed_ms,
    tags = tags_of(case),
  }
end

-- ---- cards --------------------------------------------------------------------------------------------------------------------------

local function keep(evaluation, strategy, title, options)
  local figures = evaluation.aggregated
  local made = card.create({
    pkg = {name = options.card_pkg or strategy},
    strategy = {name = strategy, params = options.strategy_opts},
    scenario = {name = title, case_count = figures.total},
    stats = {
      pass_rate = figures.pass_rate, n = figures.total, passed = figures.passed,
      mean_score = figures.scores.mean, std_dev = figures.scores.std_dev,
    },
  })
  local rows = array()
  for i = 1, #evaluation.results do rows[i] = evaluation.results[i] end
  if #rows > 0 then card.write_samples(made.card_id, rows) end
  return made.card_id
end

function alc.eval(given, strategy, options)
  local scenario = resolved(given)
  if type(strategy) ~= "string" or not find(strategy, "%S") then raise("alc.eval: strategy must be a string package name") end
  if options == nil or options == null then options = {} end
  if type(options) ~= "table" then raise("alc.eval: options must be a table") end
  local own = options.strategy_opts
  if own == nil or own == null then own = {} end
  if type(own) ~= "table" then raise("alc.eval: strategy_opts must be a table") end
  local graders, cases, results = bindings(scenario), cases_of(scenario), array()
  for i = 1, #cases do results[i] = try(strategy, own, cases[i], graders, i) end
  local title = text_of(scenario.name or type(given) == "string" and given or "inline")
  local evaluation = report(strategy .. ":" .. title, results)
  if options.auto_card == true then evaluation.card_id = keep(evaluation, strategy, title, options) end
  return evaluation
end
