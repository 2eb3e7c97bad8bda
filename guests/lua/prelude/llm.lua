-- Models: alc.llm and alc.llm_batch. With a schema, the answer is checked here, and asked for again if it does not fit.
--
-- What is returned is in parentheses where it would else be a tail call, which stack traces would show.
local alc, shared = ...
local type, next, tostring, floor, pcall, rawlen, min = type, next, tostring, math.floor, pcall, rawlen, math.min
local sub, format = string.sub, string.format
local array, null, query, query_batch = alc.array, alc.null, shared.query, shared.query_batch
local decode, encode, extract = alc.json_decode, alc.json_encode, alc.json_extract
local raise, refuse, is_list, is_count = shared.raise, shared.refuse, shared.is_list, shared.is_count
local schema_plan, schema_mismatch = shared.schema_plan, shared.schema_mismatch

local RETRIES, MOST_RETRIES, MOST_ITEMS = 2, 100, 65535
local SHOWN = 20000 -- bytes of an answer that did not fit, as they are shown to the model again

-- ---- payloads ---------------------------------------------------------------------------------------------------------------------

local function copy(from, into)
  for key, value in next, from do into[key] = value end
  return into
end

local function is_text(value) return type(value) == "string" end
local function is_number(value) return type(value) == "number" and value == value end
local function is_flag(value) return type(value) == "boolean" end

local function is_texts(value)
  if type(value) ~= "table" then return is_text(value) end
  for i = 1, #value do
    if not is_text(value[i]) then return false end
  end
  return is_list(value) or next(value) == nil
end

local OPTIONS = {
  {"system", is_text, "a string"},
  {"model", is_text, "a string"},
  {"role", is_text, "a string"},
  {"max_tokens", function(value) return is_count(value) and value > 0 end, "a whole number above 0"},
  {"temperature", is_number, "a number"},
  {"stop", is_texts, "a string or a list of strings"},
  {"grounded", is_flag, "true or false"},
  {"underspecified", is_flag, "true or false"},
  {"timeout_ms", is_number, "a number"},
}

-- What is wrong with a payload, if anything. Whole numbers become integers: JSON tells them from others.
local function wrong_option(payload)
  if (payload.prompt == nil or payload.prompt == null) and (payload.messages == nil or payload.messages == null) then
    return "a prompt or messages are needed"
  end
  for i = 1, #OPTIONS do
    local name, is_right, expected = OPTIONS[i][1], OPTIONS[i][2], OPTIONS[i][3]
    local value = payload[name]
    if value ~= nil and value ~= null and not is_right(value) then
      return format("%s must be %s, got %s", name, expected, type(value) == "number" and tostring(value) or type(value))
    end
  end
  if is_number(payload.max_tokens) then payload.max_tokens = floor(payload.max_tokens) end
end

-- The payload of a text, a list of messages, or a table of everything, with options; nothing if it is none of these.
local function payload_of(subject, options)
  local kind = type(subject)
  local payload = copy(options or {}, {})
  if kind == "string" or kind == "number" then
    payload.prompt = tostring(subject)
  elseif kind ~= "table" then
    return nil
  elseif rawlen(subject) > 0 then
    payload.messages = subject
  else
    copy(subject, payload)
  end
  return payload
end

-- ---- schemas ----------------------------------------------------------------------------------------------------------------------

-- What is known of a question with a schema: its plan, what is asked, and how often it may be asked again. nil if it has none.
local function expectation(name, payload)
  local schema = payload.schema
  if schema == nil or schema == null then return nil end
  if type(schema) ~= "table" then refuse("SCHEMA_INVALID", name .. ": the schema is not valid: it must be an object, got " .. type(schema)) end
  local plan, problem = schema_plan(schema)
  if not plan then refuse("SCHEMA_INVALID", name .. ": the schema is not valid: " .. problem) end
  local retries = payload.retries
  if retries == nil or retries == null then retries = RETRIES end
  if not is_count(retries) then raise(name .. ": retries must be a whole number, not negative") end
  payload.retries = nil
  return {plan = plan, payload = payload, left = min(retries, MOST_RETRIES)}
end

-- When the time of a question is over, its default is the answer, whatever the schema says.
local function is_default(payload, answer)
  local default = payload.default
  if default == nil then return false end
  local ok, text = pcall(encode, default)
  return ok and text == encode(answer)
end

-- The value that an answer holds: the answer itself, or the JSON in a text. A text without any may be what was asked for.
local function reading(question, answer)
  local plan = question.plan
  if is_default(question.payload, answer) then return answer end
  if type(answer) ~= "string" then return answer, schema_mismatch(plan, answer) end
  local whole, value = pcall(decode, answer)
  if whole then return value, schema_mismatch(plan, value) end
  local mismatch = "$: there is no JSON in the answer"
  value = extract(answer)
  if value then
    mismatch = schema_mismatch(plan, value)
    if not mismatch then return value end
  end
  if not schema_mismatch(plan, answer) then return answer end
  return nil, mismatch
end

local function shown(answer)
  if type(answer) ~= "string" then
    local ok, text = pcall(encode, answer)
    answer = ok and text or tostring(answer)
  end
  if #answer > SHOWN then return sub(answer, 1, SHOWN) .. " [...]" end
  return answer
end

local INSTRUCTION = "Answer again with JSON that fits the schema, and with nothing else."

-- The question once more, with what was answered and what is wrong with it.
local function again(payload, answer, mismatch)
  local next_one, told = copy(payload, {}), "That answer does not fit the JSON schema: " .. mismatch
  if payload.messages ~= nil and payload.messages ~= null then
    local messages = array()
    for i = 1, #payload.messages do messages[i] = payload.messages[i] end
    messages[#messages + 1] = {role = "assistant", content = shown(answer)}
    messages[#messages + 1] = {role = "user", content = told .. "\n" .. INSTRUCTION}
    next_one.messages = messages
    return next_one
  end
  next_one.prompt =
    format("%s\n\nYour previous answer was:\n%s\n\n%s\n%s", payload.prompt, shown(answer), told, INSTRUCTION)
  return next_one
end

local function give_up(name, mismatch)
  refuse("SCHEMA_MISMATCH", name .. ": the answer does not fit the schema: " .. mismatch)
end

-- ---- one question -----------------------------------------------------------------------------------------------------------------

local function ask(name, payload)
  local expected = expectation(name, payload)
  if not expected then return (query("llm", payload)) end
  local answer = query("llm", payload)
  while true do
    local value, mismatch = reading(expected, answer)
    if not mismatch then return value end
    if expected.left == 0 then give_up(name, mismatch) end
    expected.left = expected.left - 1
    answer = query("llm", again(payload, answer, mismatch))
  end
end

local function llm(name, subject, options)
  if options == nil and type(subject) == "string" then return (query("llm", {prompt = subject})) end -- a bare prompt needs no checks
  if options ~= nil and type(options) ~= "table" then
    raise(format("bad argument #2 to '%s' (table expected, got %s)", name, type(options)))
  end
  local payload = payload_of(subject, options)
  if not payload then raise(format("bad argument #1 to '%s' (string or table expected, got %s)", name, type(subject))) end
  local wrong = wrong_option(payload)
  if wrong then raise(name .. ": " .. wrong) end
  return (ask(name, payload))
end

function alc.llm(prompt, options) return (llm("alc.llm", prompt, options)) end

-- ---- many at once -----------------------------------------------------------------------------------------------------------------

local function ask_all(payloads)
  local questions = {}
  for i = 1, #payloads do questions[i] = {kind = "llm", payload = payloads[i]} end
  return (query_batch(questions))
end

-- Asks for all answers that do not fit again, together, until they fit or may not be asked for any more.
local function settle(name, expected, answers)
  while true do
    local places, payloads = {}, {}
    for i = 1, #answers do
      local question, value, mismatch = expected[i], nil, nil
      if question then value, mismatch = reading(question, answers[i]) end
      if not question then
        -- It has no schema, or fitted before.
      elseif not mismatch then
        if value == nil then value = null end
        answers[i], expected[i] = value, nil
      elseif question.left == 0 then
        give_up(format("%s: item %d", name, i), mismatch)
      else
        question.left = question.left - 1
        places[#places + 1], payloads[#payloads + 1] = i, again(question.payload, answers[i], mismatch)
      end
    end
    if #places == 0 then return answers end
    local new = ask_all(payloads)
    for i = 1, #places do answers[places[i]] = new[i] end
  end
end

local function llm_batch(name, items)
  if type(items) ~= "table" then raise(format("bad argument #1 to '%s' (table expected, got %s)", name, type(items))) end
  local count = rawlen(items)
  if count == 0 then raise(name .. ": empty items array") end
  if count > MOST_ITEMS then raise(format("bad argument #1 to '%s' (too many items)", name)) end
  local payloads, expected = {}, {}
  for i = 1, count do
    local payload = payload_of(items[i])
    if not payload then raise(format("bad argument #1 to '%s' (item %d: string or table expected)", name, i)) end
    local wrong = wrong_option(payload)
    if wrong then raise(format("%s: item %d: %s", name, i, wrong)) end
    payloads[i], expected[i] = payload, expectation(format("%s: item %d", name, i), payload)
  end
  local answers = ask_all(payloads)
  if next(expected) == nil then return answers end
  return (settle(name, expected, answers))
end

function alc.llm_batch(items) return (llm_batch("alc.llm_batch", items)) end

shared.llm, shared.llm_batch, shared.copy = llm, llm_batch, copy
