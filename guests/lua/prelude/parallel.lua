-- One question for each item of a list, all asked in one round.
local alc, shared = ...
local type, format = type, string.format
local array, raise, copy, llm_batch = alc.array, shared.raise, shared.copy, shared.llm_batch

local function question(made, i, options)
  local kind = type(made)
  if kind == "string" then
    local item = copy(options, {})
    item.post_fn, item.prompt = nil, made
    return item
  end
  if kind ~= "table" then raise(format("alc.parallel: prompt_fn must return string or table, got %s at index %d", kind, i)) end
  if made.prompt == nil and made.messages == nil then
    raise(format("alc.parallel: prompt_fn returned table without .prompt at index %d", i))
  end
  return made
end

function alc.parallel(items, prompt_fn, options)
  if type(items) ~= "table" or #items == 0 then raise("alc.parallel: items must be a non-empty array") end
  if type(prompt_fn) ~= "function" then raise("alc.parallel: prompt_fn must be a function") end
  if options == nil then options = {} end
  if type(options) ~= "table" then raise("alc.parallel: options must be a table") end
  local finish = options.post_fn
  if finish ~= nil and type(finish) ~= "function" then raise("alc.parallel: post_fn must be a function") end
  local questions = {}
  for i = 1, #items do questions[i] = question(prompt_fn(items[i], i), i, options) end
  local answers = llm_batch("alc.parallel", questions)
  if not finish then return answers end
  local results = array()
  for i = 1, #answers do results[i] = finish(answers[i], items[i], i) end
  return results
end
