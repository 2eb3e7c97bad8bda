-- Texts cut into pieces, and what can be read out of them.
local alc, shared = ...
local type, tostring, tonumber, pcall, format = type, tostring, tonumber, pcall, string.format
local find, match, sub, byte, gsub, lower = string.find, string.match, string.sub, string.byte, string.gsub, string.lower
local concat = table.concat
local array, decode, decode_at, raise, is_count = alc.array, alc.json_decode, shared.decode_at, shared.raise, shared.is_count

local function trim(text)
  local from, last = find(text, "%S"), #text
  if not from then return "" end
  while find(text, "^%s", last) do last = last - 1 end
  return sub(text, from, last)
end

-- ---- chunks -----------------------------------------------------------------------------------------------------------------------

local function lines_of(text)
  local lines, count, from = {}, 0, 1
  while from <= #text do
    local stop = find(text, "\n", from, true)
    local last = (stop or #text + 1) - 1
    if stop and byte(text, last) == 13 and last >= from then last = last - 1 end
    count = count + 1
    lines[count] = sub(text, from, last)
    from = (stop or #text) + 1
  end
  return lines, count
end

local CONTINUED = {"", "^[\x80-\xBF]", "^[\x80-\xBF][\x80-\xBF]", "^[\x80-\xBF][\x80-\xBF][\x80-\xBF]"}

-- Where each character begins. A byte that is not UTF-8 is one too.
local function starts_of(text)
  local starts, count, at = {}, 0, 1
  while at <= #text do
    count = count + 1
    starts[count] = at
    local first = byte(text, at)
    local length = first < 0xC2 and 1 or first < 0xE0 and 2 or first < 0xF0 and 3 or first < 0xF5 and 4 or 1
    if length > 1 and not find(text, CONTINUED[length], at + 1) then length = 1 end
    at = at + length
  end
  starts[count + 1] = #text + 1
  return starts, count
end

local function cut(count, size, overlap, piece)
  local pieces, step, from = array(), overlap < size and size - overlap or 1, 1
  if size == 0 then return pieces end
  while from <= count do
    local last = from + size - 1
    if last > count then last = count end
    pieces[#pieces + 1] = piece(from, last)
    if last == count then break end
    from = from + step
  end
  return pieces
end

function alc.chunk(text, options)
  if type(text) ~= "string" then raise("alc.chunk: text must be a string, got " .. type(text)) end
  if options == nil then options = {} end
  if type(options) ~= "table" then raise("alc.chunk: options must be a table, got " .. type(options)) end
  local size, overlap = options.size, options.overlap
  if size == nil then size = 50 end
  if overlap == nil then overlap = 0 end
  if not is_count(size) then raise("alc.chunk: size must be a whole number, not negative") end
  if not is_count(overlap) then raise("alc.chunk: overlap must be a whole number, not negative") end
  if options.mode == "chars" then
    local starts, count = starts_of(text)
    return cut(count, size, overlap, function(from, last) return sub(text, starts[from], starts[last + 1] - 1) end)
  end
  local lines, count = lines_of(text)
  return cut(count, size, overlap, function(from, last) return concat(lines, "\n", from, last) end)
end

-- ---- numbers ------------------------------------------------------------------------------------------------------------------------

function alc.parse_score(text, default)
  local score = tonumber(match(tostring(text), "%d+"))
  if not score then
    if default == nil then return 5 end
    return default
  end
  return score < 1 and 1 or score > 10 and 10 or score
end

function alc.parse_number(text, pattern)
  if type(text) ~= "string" then return nil end
  if pattern ~= nil then
    local found = match(text, pattern)
    return type(found) == "string" and tonumber(found) or type(found) == "number" and found or nil
  end
  local from, last = find(text, "%-?%d+")
  if not from then return nil end
  local _, fraction = find(text, "^%.%d+", last + 1)
  return tonumber(sub(text, from, fraction or last))
end

-- ---- JSON in a text -----------------------------------------------------------------------------------------------------------------

local function decoded(text)
  if not text then return nil end
  local ok, value = pcall(decode, text)
  if ok and type(value) == "table" then return value end
end

-- The first value that begins with this character. Whether it is whole is left to the parser, which knows a bracket in a string.
local function embedded(text, opening)
  local at = find(text, opening, 1, true)
  while at do
    local value = decode_at(text, at)
    if value then return value end
    at = find(text, opening, at + 1, true)
  end
end

function alc.json_extract(text)
  if type(text) ~= "string" then return nil end
  return decoded(text)
    or decoded(match(text, "```[jJ][sS][oO][nN]%s*(.-)```"))
    or decoded(match(text, "```%s*(.-)```"))
    or embedded(text, "{")
    or embedded(text, "[")
end

-- ---- fingerprints -------------------------------------------------------------------------------------------------------------------

function alc.fingerprint(value)
  local text = trim(gsub(lower(tostring(value)), "%s+", " "))
  local hash = 5381
  for at = 1, #text do hash = (hash * 33 + byte(text, at)) & 0xFFFFFFFF end
  return format("%08x", hash)
end

shared.starts_of, shared.trim = starts_of, trim
