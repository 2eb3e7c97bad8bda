-- Strategies one after the other, each with what the one before has made.
local alc, shared = ...
local type, pcall, require, tostring, format = type, pcall, require, tostring, string.format
local array, encode, null = alc.array, alc.json_encode, alc.null
local raise, copy, log, text_of = shared.raise, shared.copy, shared.log, shared.text_of

-- The function of an entry, and its name. The error of a module that cannot be loaded is raised as it is.
local function stage_of(name, entry, i)
  if type(entry) == "function" then return entry, format("(inline-%d)", i) end
  if type(entry) ~= "string" then raise(format("%s: strategy %d must be a name or a function, got %s", name, i, type(entry))) end
  local module = require(entry)
  local run = type(module) == "table" and module.run
  if type(run) ~= "function" then raise(format("%s: strategy '%s' has no function run", name, entry)) end
  return run, entry
end

local function run_stage(stage, name, i, ctx)
  local made = stage(ctx)
  if type(made) ~= "table" then raise(format("alc.pipe: stage %d ('%s') must return a table, got %s", i, name, type(made))) end
  return made
end

local MODES = {abort = true, skip = true, continue = true}

function alc.pipe(strategies, ctx, options)
  if type(strategies) ~= "table" then raise("alc.pipe: strategies must be an array") end
  if ctx == nil or ctx == null then ctx = {} end
  if type(ctx) ~= "table" then raise("alc.pipe: ctx must be a table") end
  options = options or {}
  local mode, on_stage = options.on_error or "abort", options.on_stage
  if not MODES[mode] then raise("alc.pipe: on_error must be 'abort', 'skip' or 'continue'") end
  if on_stage ~= nil and type(on_stage) ~= "function" then raise("alc.pipe: on_stage must be a function") end
  ctx = copy(ctx, {})
  local history, count = array(), #strategies
  ctx.pipe_history = history
  for i = 1, count do
    local stage, name = stage_of("alc.pipe", strategies[i], i)
    if on_stage then on_stage(i, name, ctx) end
    local ok, made = true, nil
    if mode == "abort" then
      made = run_stage(stage, name, i, ctx)
    else
      ok, made = pcall(run_stage, stage, name, i, ctx)
    end
    if ok then
      ctx = made
      ctx.pipe_history = history
      history[#history + 1] = {strategy = name, result = ctx.result}
      if i < count and ctx.result ~= nil then
        ctx.task = type(ctx.result) == "table" and encode(ctx.result) or tostring(ctx.result)
      end
    else
      log("warn", format("alc.pipe: stage %d ('%s') failed: %s", i, name, text_of(made)))
      history[#history + 1] = {strategy = name, error = text_of(made)}
    end
  end
  return ctx
end

shared.stage_of = stage_of
