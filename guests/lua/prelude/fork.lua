-- Branches of a running script. The runtime makes a copy of the whole session for each, so a branch goes on here, in memory of its own.
local alc, shared = ...
local type, pcall, find, format = type, pcall, string.find, string.format
local array, null, query, encode, decode = alc.array, alc.null, shared.query, alc.json_encode, alc.json_decode
local raise, refuse, stage_of, text_of = shared.raise, shared.refuse, shared.stage_of, shared.text_of

-- Ends the execution. What it says is JSON; nobody answers.
local function leave(last_words)
  query("tool", {name = "holdfast.exit", args = last_words})
  refuse("EXIT_REFUSED", "the execution was to end here, and whoever runs it lets it go on")
end

local function result(value)
  local ok, text = pcall(encode, value)
  if not ok then return {ok = false, error = text} end
  value = decode(text)
  if value == nil then value = null end
  return {ok = true, value = value}
end

function alc.exit(value)
  local last_words = result(value)
  if not last_words.ok then raise("alc.exit: " .. last_words.error) end
  leave(last_words)
end

local function run_entry(entry, i, ctx) return (stage_of("alc.fork", entry, i)(ctx)) end

local function branch(entry, i, ctx)
  local ok, value = pcall(run_entry, entry, i, ctx)
  leave(ok and result(value) or {ok = false, error = text_of(value)})
end

local function name_of(entry, i)
  if type(entry) == "function" then return format("(inline-%d)", i) end
  if type(entry) == "string" and find(entry, "^%a[%w_-]*$") then return entry end
  raise(format("alc.fork: invalid strategy name '%s'", text_of(entry)))
end

local MODES = {skip = "skip", abort = "abort", fail = "abort"}

function alc.fork(strategies, ctx, options)
  if type(strategies) ~= "table" or #strategies == 0 then raise("alc.fork: strategies must be a non-empty array") end
  if options ~= nil and type(options) ~= "table" then raise("alc.fork: options must be a table") end
  local mode = MODES[options and options.on_error or "skip"]
  if not mode then raise("alc.fork: on_error must be 'skip', 'abort' or 'fail'") end
  local names = array()
  for i = 1, #strategies do names[i] = name_of(strategies[i], i) end
  local answer = query("tool", {name = "holdfast.fork", args = {strategies = names, on_error = mode}})
  if type(answer) ~= "table" then refuse("BAD_ANSWER", "alc.fork: the answer is not one to a fork") end
  if answer.child ~= nil then branch(strategies[answer.child], answer.child, ctx) end
  local results = answer.results
  if type(results) ~= "table" then refuse("BAD_ANSWER", "alc.fork: the answer is not one to a fork") end
  for i = 1, mode == "abort" and #results or 0 do
    local one = results[i]
    if not one.ok then raise(format("alc.fork: strategy '%s' failed: %s", text_of(one.strategy), text_of(one.error))) end
  end
  return results
end
