-- Answers that are kept as long as the session lives: the same question is asked once.
local alc, shared = ...
local type, pcall, remove = type, pcall, table.remove
local encode, decode, null = alc.json_encode, alc.json_decode, alc.null
local llm, copy, raise, text_of = shared.llm, shared.copy, shared.raise, shared.text_of

local MOST = 256
local answers, order, hits, misses = {}, {}, 0, 0

-- The question to the letter, with all options: two that differ in anything are two questions.
local function key_of(prompt, options, own)
  if own ~= nil then return "key " .. type(own) .. " " .. text_of(own) end
  local ok, text = pcall(encode, {prompt = prompt, options = options})
  if not ok then raise("alc.cache: this question cannot be kept: " .. text) end
  return text
end

function alc.cache(prompt, options)
  if options ~= nil and type(options) ~= "table" then raise("alc.cache: options must be a table") end
  options = copy(options or {}, {})
  local own, skip = options.cache_key, options.cache_skip
  options.cache_key, options.cache_skip = nil, nil
  if skip and skip ~= null then return (llm("alc.cache", prompt, options)) end
  local key = key_of(prompt, options, own)
  local kept = answers[key]
  if kept then
    hits = hits + 1
    if kept.json then return decode(kept.json) end
    return kept.value
  end
  misses = misses + 1
  local answer = llm("alc.cache", prompt, options)
  if not answers[key] then
    if #order == MOST then answers[remove(order, 1)] = nil end
    order[#order + 1] = key
  end
  -- A table is kept as JSON: what a script changes in it is not changed in the next answer.
  answers[key] = type(answer) == "table" and {json = encode(answer)} or {value = answer}
  return answer
end

function alc.cache_info() return {entries = #order, hits = hits, misses = misses, max_entries = MOST} end

function alc.cache_clear() answers, order, hits, misses = {}, {}, 0, 0 end
