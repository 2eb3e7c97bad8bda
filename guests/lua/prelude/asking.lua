-- Ways to ask a model: with a default, for JSON, for what can be proven, for what is missing.
local alc, shared = ...
local type, pcall, format, tostring = type, pcall, string.format, tostring
local llm, copy, log, raise, text_of = shared.llm, shared.copy, shared.log, shared.raise, shared.text_of
local extract, encode = alc.json_extract, alc.json_encode

local function options_of(name, options)
  if options == nil then return {} end
  if type(options) ~= "table" then raise(format("bad argument #2 to '%s' (table expected, got %s)", name, type(options))) end
  return copy(options, {})
end

function alc.llm_safe(prompt, options, default)
  local ok, result = pcall(llm, "alc.llm_safe", prompt, options)
  if ok then return result end
  log("warn", "alc.llm_safe: " .. text_of(result))
  return default
end

local ONLY_JSON = "You answer with valid JSON and with nothing else: no explanation, no code fence."

local function read(answer)
  if type(answer) == "table" then return answer, encode(answer) end
  return extract(answer), answer
end

function alc.llm_json(prompt, options)
  options = options_of("alc.llm_json", options)
  local value, raw = read(llm("alc.llm_json", prompt, options))
  if value then return value, raw end
  log("warn", "alc.llm_json: there is no JSON in the answer, asking once more")
  options.system = ONLY_JSON
  local request = type(prompt) == "table" and encode(prompt) or tostring(prompt)
  value, raw = read(llm("alc.llm_json", format(
    "There is no valid JSON in this output:\n\n%s\n\nThe original request was:\n\n%s\n\nAnswer it again, with valid JSON only.",
    text_of(raw), request), options))
  if value then return value, raw end
  log("warn", "alc.llm_json: there is no JSON in the second answer either")
  return nil, raw
end

function alc.ground(claim, options)
  options = options_of("alc.ground", options)
  options.grounded = true
  return (llm("alc.ground", claim, options))
end

function alc.specify(prompt, options)
  options = options_of("alc.specify", options)
  options.underspecified = true
  return (llm("alc.specify", prompt, options))
end
