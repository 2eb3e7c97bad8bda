-- Regular expressions as JSON Schema has them: those of ECMAScript with its flag u, as far as they say yes or no.
--
-- A pattern is compiled to a small program, and all ways through it are followed side by side, one character after the other. So a text is
-- read once, however the pattern is written, and whether a quantifier is greedy or lazy makes no difference. What can only be done by
-- trying (references to groups) and what would need tables (properties of characters) is refused.
local _, shared = ...
local type, error, pcall = type, error, pcall
local byte, find, sub, char, tonumber = string.byte, string.find, string.sub, string.char, tonumber

local MOST_INSTRUCTIONS, MOST_NESTED = 5000, 50
local CHARACTER, SET, FORK, JUMP, START, STOP, EDGE, INSIDE, AHEAD, NOT_AHEAD, MATCH = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11

-- The code of the character at a place, and where the next one begins. A byte that is not UTF-8 stands for U+FFFD.
local function character_at(text, at)
  local a, b, c, d = byte(text, at, at + 3)
  if a < 0x80 then return a, at + 1 end
  if a >= 0xC2 and a < 0xE0 and b and b & 0xC0 == 0x80 then return (a & 0x1F) << 6 | b & 0x3F, at + 2 end
  if b and c and b & 0xC0 == 0x80 and c & 0xC0 == 0x80 then
    if a >= 0xE0 and a < 0xF0 then return (a & 0x0F) << 12 | (b & 0x3F) << 6 | c & 0x3F, at + 3 end
    if a >= 0xF0 and a < 0xF5 and d and d & 0xC0 == 0x80 then
      return (a & 0x07) << 18 | (b & 0x3F) << 12 | (c & 0x3F) << 6 | d & 0x3F, at + 4
    end
  end
  return 0xFFFD, at + 1
end

-- ---- sets: lists of first, last, first, last, ... with `except` for what is not in them --------------------------------------------

local DIGIT = {48, 57}
local WORD = {48, 57, 65, 90, 95, 95, 97, 122}
local SPACE = {9, 13, 32, 32, 0xA0, 0xA0, 0x1680, 0x1680, 0x2000, 0x200A, 0x2028, 0x2029, 0x202F, 0x202F, 0x205F, 0x205F, 0x3000, 0x3000, 0xFEFF, 0xFEFF}
local LINE_END = {10, 10, 13, 13, 0x2028, 0x2029}
local CLASSES = {d = DIGIT, w = WORD, s = SPACE}

local function complement(set)
  local result, from = {}, 0
  for i = 1, #set, 2 do
    if set[i] > from then result[#result + 1], result[#result + 2] = from, set[i] - 1 end
    from = set[i + 1] + 1
  end
  result[#result + 1], result[#result + 2] = from, 0x10FFFF
  return result
end

local function holds(set, code)
  local found = false
  for i = 1, #set, 2 do
    if code >= set[i] and code <= set[i + 1] then
      found = true
      break
    end
  end
  return found ~= (set.except or false)
end

local OTHERS = {D = complement(DIGIT), W = complement(WORD), S = complement(SPACE)}
local DOT = complement(LINE_END)

local function is_word(code) return code ~= nil and holds(WORD, code) end

-- ---- reading a pattern -------------------------------------------------------------------------------------------------------------------

local function wrong(message) error({regex = message}, 0) end

local CONTROLS = {t = 9, n = 10, v = 11, f = 12, r = 13}
local MARKS = "^[%^%$\\%.%*%+%?%(%)%[%]{}|/%-]"

local function hex(reader, count)
  local digits = sub(reader.text, reader.at, reader.at + count - 1)
  if #digits < count or find(digits, "%X") then wrong("an escape needs " .. count .. " hexadecimal digits") end
  reader.at = reader.at + count
  return tonumber(digits, 16)
end

local function unicode(reader)
  if byte(reader.text, reader.at) ~= 123 then -- {
    local code = hex(reader, 4)
    if code >= 0xD800 and code < 0xDC00 and find(reader.text, "^\\u[dD][c-fC-F]%x%x", reader.at) then
      reader.at = reader.at + 2
      code = 0x10000 + ((code - 0xD800) << 10) + hex(reader, 4) - 0xDC00
    end
    return code
  end
  local _, last = find(reader.text, "^{%x+}", reader.at)
  local code = last and last - reader.at < 12 and tonumber(sub(reader.text, reader.at + 1, last - 1), 16)
  if not code or code > 0x10FFFF then wrong("\\u{...} is no character") end
  reader.at = last + 1
  return code
end

-- What follows a backslash: a character's code, or a set.
local function escape(reader, in_class)
  if reader.at > #reader.text then wrong("nothing follows a backslash") end
  local code, after = character_at(reader.text, reader.at)
  local letter = code < 128 and char(code) or ""
  reader.at = after
  if CLASSES[letter] then return nil, CLASSES[letter] end
  if OTHERS[letter] then return nil, OTHERS[letter] end
  if CONTROLS[letter] then return CONTROLS[letter] end
  if letter == "x" then return hex(reader, 2) end
  if letter == "u" then return unicode(reader) end
  if letter == "b" and in_class then return 8 end
  if letter == "0" and not find(reader.text, "^%d", reader.at) then return 0 end
  if letter == "c" and find(reader.text, "^%a", reader.at) then
    reader.at = reader.at + 1
    return byte(reader.text, reader.at - 1) & 31
  end
  if find(letter, MARKS) then return code end
  if find(letter, "%d") or letter == "k" then wrong("references to groups are not known here") end
  if letter == "p" or letter == "P" then wrong("\\p{...} is not known here") end
  wrong("\\" .. letter .. " is no escape")
end

local function add_set(into, set)
  for i = 1, #set do into[#into + 1] = set[i] end
end

-- One end of a range in a class: a code, or a whole set.
local function class_atom(reader)
  if byte(reader.text, reader.at) == 92 then -- \
    reader.at = reader.at + 1
    return escape(reader, true)
  end
  local code, after = character_at(reader.text, reader.at)
  reader.at = after
  return code
end

local function class(reader) -- behind the [
  local set = {}
  if byte(reader.text, reader.at) == 94 then -- ^
    set.except = true
    reader.at = reader.at + 1
  end
  while byte(reader.text, reader.at) ~= 93 do -- ]
    if reader.at > #reader.text then wrong("a [ has no ]") end
    local first, named = class_atom(reader)
    local last = first
    if find(reader.text, "^%-[^%]]", reader.at) then
      reader.at = reader.at + 1
      local other
      last, other = class_atom(reader)
      if named or other then wrong("a range in [] has characters at both ends") end
      if last < first then wrong("a range in [] is the wrong way round") end
    end
    if named then
      add_set(set, named)
    else
      set[#set + 1], set[#set + 2] = first, last
    end
  end
  reader.at = reader.at + 1
  return {kind = "set", set = set}
end

local alternatives

local GROUPS = {{"^%?:", "group"}, {"^%?=", "ahead"}, {"^%?!", "not ahead"}, {"^%?<%a%w*>", "group"}}

local function group(reader) -- behind the (
  local kind = "group"
  if byte(reader.text, reader.at) == 63 then -- ?
    kind = nil
    for i = 1, #GROUPS do
      local _, last = find(reader.text, GROUPS[i][1], reader.at)
      if last then
        kind = GROUPS[i][2]
        reader.at = last + 1
        break
      end
    end
    if not kind then wrong("this kind of group is not known here") end
  end
  reader.depth = reader.depth + 1
  if reader.depth > MOST_NESTED then wrong("groups are nested too deep") end
  local inner = alternatives(reader)
  reader.depth = reader.depth - 1
  if byte(reader.text, reader.at) ~= 41 then wrong("a ( has no )") end
  reader.at = reader.at + 1
  if kind == "group" then return inner end
  return {kind = kind, inner}
end

local SINGLES = {["^"] = {kind = "start"}, ["$"] = {kind = "stop"}, ["."] = {kind = "set", set = DOT}}

local function atom(reader)
  local code, after = character_at(reader.text, reader.at)
  local letter = code < 128 and char(code) or ""
  reader.at = after
  if SINGLES[letter] then return SINGLES[letter] end
  if letter == "[" then return class(reader) end
  if letter == "(" then return group(reader) end
  if letter == "*" or letter == "+" or letter == "?" then wrong("nothing is before a " .. letter) end
  if letter ~= "\\" then return {kind = "character", code = code} end
  if find(reader.text, "^[bB]", reader.at) then
    reader.at = reader.at + 1
    return {kind = byte(reader.text, reader.at - 1) == 98 and "edge" or "inside"}
  end
  local meant, set = escape(reader, false)
  if set then return {kind = "set", set = set} end
  return {kind = "character", code = meant}
end

-- How often: least, most (nil: without end); nothing if there is no quantifier.
local function quantifier(reader)
  local mark = sub(reader.text, reader.at, reader.at)
  local least, most, length
  if mark == "*" then
    least, length = 0, 1
  elseif mark == "+" then
    least, length = 1, 1
  elseif mark == "?" then
    least, most, length = 0, 1, 1
  else
    local _, last, from, comma, to = find(reader.text, "^{(%d+)(,?)(%d*)}", reader.at)
    if not last then return nil end
    least, most, length = tonumber(from), comma == "" and tonumber(from) or tonumber(to), last - reader.at + 1
    if most and most < least then wrong("a quantifier is the wrong way round") end
    if least > MOST_INSTRUCTIONS or (most or 0) > MOST_INSTRUCTIONS then wrong("it is too large") end
  end
  reader.at = reader.at + length
  if byte(reader.text, reader.at) == 63 then reader.at = reader.at + 1 end -- ?: lazy
  return least, most
end

local ASSERTIONS = {start = true, stop = true, edge = true, inside = true, ahead = true, ["not ahead"] = true}

local function sequence(reader)
  local items = {kind = "sequence"}
  while reader.at <= #reader.text and not find(reader.text, "^[|)]", reader.at) do
    local item = atom(reader)
    local least, most = quantifier(reader)
    if least then
      if ASSERTIONS[item.kind] then wrong("nothing is before a quantifier") end
      item = {kind = "repeat", least = least, most = most, item}
    end
    items[#items + 1] = item
  end
  return items
end

alternatives = function(reader)
  local found = {kind = "either", sequence(reader)}
  while byte(reader.text, reader.at) == 124 do -- |
    reader.at = reader.at + 1
    found[#found + 1] = sequence(reader)
  end
  return #found == 1 and found[1] or found
end

-- ---- programs: three lists, of what to do and with what ------------------------------------------------------------------------------

local emit

local function put(program, op, a, b)
  local at, size = #program.op + 1, program.size
  size[1] = size[1] + 1
  if size[1] > MOST_INSTRUCTIONS then wrong("it is too large") end
  program.op[at], program.a[at], program.b[at] = op, a or 0, b or 0
  return at
end

local function emit_either(program, node)
  local ends = {}
  for i = 1, #node - 1 do
    local fork = put(program, FORK)
    program.a[fork] = fork + 1
    emit(program, node[i])
    ends[i] = put(program, JUMP)
    program.b[fork] = #program.op + 1
  end
  emit(program, node[#node])
  for i = 1, #ends do program.a[ends[i]] = #program.op + 1 end
end

local function emit_repeat(program, node)
  local before = #program.op
  for _ = 1, node.least do
    emit(program, node[1])
    if #program.op == before then return end -- nothing, however often
  end
  if not node.most then
    local fork = put(program, FORK)
    program.a[fork] = fork + 1
    emit(program, node[1])
    put(program, JUMP, fork)
    program.b[fork] = #program.op + 1
    return
  end
  local forks = {}
  for i = 1, node.most - node.least do
    forks[i] = put(program, FORK)
    program.a[forks[i]] = forks[i] + 1
    emit(program, node[1])
  end
  for i = 1, #forks do program.b[forks[i]] = #program.op + 1 end
end

local function assemble(node, size)
  local program = {op = {}, a = {}, b = {}, size = size} -- the size is that of all programs of a pattern
  emit(program, node)
  put(program, MATCH)
  return program
end

local EMITTERS = {
  character = function(program, node) put(program, CHARACTER, node.code) end,
  set = function(program, node) put(program, SET, node.set) end,
  start = function(program) put(program, START) end,
  stop = function(program) put(program, STOP) end,
  edge = function(program) put(program, EDGE) end,
  inside = function(program) put(program, INSIDE) end,
  ahead = function(program, node) put(program, AHEAD, assemble(node[1], program.size)) end,
  ["not ahead"] = function(program, node) put(program, NOT_AHEAD, assemble(node[1], program.size)) end,
  either = emit_either,
  ["repeat"] = emit_repeat,
  sequence = function(program, node)
    for i = 1, #node do emit(program, node[i]) end
  end,
}

emit = function(program, node) EMITTERS[node.kind](program, node) end

-- ---- matching ----------------------------------------------------------------------------------------------------------------------------

local matches

-- Adds a place of the program and all that is reached from it without reading a character. True if its end is.
local function follow(program, threads, seen, place, text, at, before)
  local op, a, b = program.op, program.a, program.b
  local stack, top = {place}, 1
  while top > 0 do
    local pc = stack[top]
    top = top - 1
    if seen[pc] ~= at then
      seen[pc] = at
      local what, on = op[pc], false
      if what == MATCH then return true end
      if what == CHARACTER or what == SET then
        threads[#threads + 1] = pc
      elseif what == FORK then
        stack[top + 1], stack[top + 2] = b[pc], a[pc]
        top = top + 2
      elseif what == JUMP then
        top = top + 1
        stack[top] = a[pc]
      elseif what == START then
        on = before == nil
      elseif what == STOP then
        on = at > #text
      elseif what == AHEAD then
        on = matches(a[pc], text, at, before, true)
      elseif what == NOT_AHEAD then
        on = not matches(a[pc], text, at, before, true)
      else
        local edge = is_word(before) ~= (at <= #text and is_word((character_at(text, at))))
        on = edge == (what == EDGE)
      end
      if on then
        top = top + 1
        stack[top] = pc + 1
      end
    end
  end
  return false
end

matches = function(program, text, at, before, anchored)
  local op, a, seen, threads = program.op, program.a, {}, {}
  if follow(program, threads, seen, 1, text, at, before) then return true end
  while at <= #text do
    if anchored and #threads == 0 then return false end
    local code, after = character_at(text, at)
    local reached = {}
    for i = 1, #threads do
      local pc = threads[i]
      local fits
      if op[pc] == CHARACTER then
        fits = a[pc] == code
      else
        fits = holds(a[pc], code)
      end
      if fits and follow(program, reached, seen, pc + 1, text, after, code) then return true end
    end
    if not anchored and follow(program, reached, seen, 1, text, after, code) then return true end
    threads, at, before = reached, after, code
  end
  return false
end

-- ---- for the schema's validator ------------------------------------------------------------------------------------------------------

-- A compiled pattern, or nil and what is wrong with it.
function shared.regex_compile(pattern)
  local reader = {text = pattern, at = 1, depth = 0}
  local ok, result = pcall(function()
    local tree = alternatives(reader)
    if reader.at <= #pattern then wrong("a ) has no (") end
    return assemble(tree, {0})
  end)
  if ok then return result end
  if type(result) == "table" and result.regex then return nil, result.regex end
  error(result, 0)
end

function shared.regex_matches(program, text) return matches(program, text, 1, nil, false) end
