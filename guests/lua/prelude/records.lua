-- What a script says while it runs: log lines, progress and figures. They are records of the step, as lines of print are.
local alc, shared = ...
local type, tostring, pcall, rawget, floor = type, tostring, pcall, rawget, math.floor
local emit, executions, raise, null = shared.emit, shared.executions, shared.raise, alc.null
local encode, decode = alc.json_encode, alc.json_decode

-- Any value as text: an error that is a table as its message, one whose __tostring fails by its type.
local function text_of(value)
  if type(value) == "string" then return value end
  if type(value) == "table" and type(rawget(value, "message")) == "string" then return rawget(value, "message") end
  local ok, text = pcall(tostring, value)
  if ok then return text end
  return type(value)
end

local function is_count(value) return type(value) == "number" and value >= 0 and value < 2 ^ 53 and floor(value) == value end

function alc.log(level, message)
  if type(level) ~= "string" then raise("alc.log: level must be a string, got " .. type(level)) end
  emit("log", {level = level, message = text_of(message)})
end

function alc.progress(step, total, message)
  if not is_count(step) then raise("alc.progress: step must be a whole number, not negative") end
  if not is_count(total) then raise("alc.progress: total must be a whole number, not negative") end
  if message == nil then message = null end
  emit("progress", {step = floor(step), total = floor(total), message = message ~= null and text_of(message) or null})
end

-- Figures are of one execution. They are kept as JSON: what a script changes in a table later is not in the record.
local figures, execution = {}, -1

local function current()
  if execution ~= executions() then figures, execution = {}, executions() end
  return figures
end

local function check_key(name, key)
  if type(key) ~= "string" then raise(name .. ": key must be a string, got " .. type(key)) end
end

alc.stats = {}

function alc.stats.record(key, value)
  check_key("alc.stats.record", key)
  local ok, text = pcall(encode, value)
  if not ok then raise("alc.stats.record: " .. text) end
  current()[key] = text
  value = decode(text)
  if value == nil then value = null end
  emit("stat", {key = key, value = value})
end

function alc.stats.get(key)
  check_key("alc.stats.get", key)
  local text = current()[key]
  if text then return decode(text) end
  return nil
end

shared.text_of, shared.is_count, shared.log = text_of, is_count, alc.log
