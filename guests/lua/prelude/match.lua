-- What a model has chosen, when it was asked to choose: one of several words, or yes or no.
local alc, shared = ...
local type, gmatch, find, lower, reverse, sub = type, string.gmatch, string.find, string.lower, string.reverse, string.sub
local raise, starts_of = shared.raise, shared.starts_of

local function last_place(text, word) -- where it begins the last time
  local at = find(reverse(text), reverse(word), 1, true)
  return at and #text - at - #word + 2
end

local function mentioned(text, candidates)
  local best, latest
  for i = 1, #candidates do
    local word = candidates[i]
    local place = word ~= "" and last_place(text, lower(word))
    if place and (not latest or place > latest) then best, latest = word, place end
  end
  return best
end

-- ---- Jaro and Winkler: how alike two words are, from 0 to 1 ------------------------------------------------------------------------

local function characters(word)
  local starts, count = starts_of(word)
  local list = {}
  for i = 1, count do list[i] = sub(word, starts[i], starts[i + 1] - 1) end
  return list, count
end

local function jaro(one, one_count, other, other_count)
  local reach = (one_count > other_count and one_count or other_count) // 2 - 1
  if reach < 0 then reach = 0 end
  local taken, matched = {}, {}
  for i = 1, one_count do
    local first = i - reach < 1 and 1 or i - reach
    local last = i + reach > other_count and other_count or i + reach
    for j = first, last do
      if not taken[j] and one[i] == other[j] then
        taken[j] = true
        matched[#matched + 1] = one[i]
        break
      end
    end
  end
  local count = #matched
  if count == 0 then return 0 end
  local moved, at = 0, 0
  for j = 1, other_count do
    if taken[j] then
      at = at + 1
      if matched[at] ~= other[j] then moved = moved + 1 end
    end
  end
  return (count / one_count + count / other_count + (count - moved / 2) / count) / 3
end

local function likeness(one, other)
  if one == other then return 1 end
  local a, a_count = characters(one)
  local b, b_count = characters(other)
  if a_count == 0 or b_count == 0 then return 0 end
  local short, long = a_count < b_count and a_count or b_count, a_count > b_count and a_count or b_count
  if long > 16 * short + 64 then return 0 end -- a text without spaces is not a misspelt word
  local score = jaro(a, a_count, b, b_count)
  if score <= 0.7 then return score end
  local same = 0
  while same < 4 and same < short and a[same + 1] == b[same + 1] do same = same + 1 end
  return score + same * 0.1 * (1 - score)
end

-- A word without what stands around it. Bytes above ASCII belong to letters.
local function bare(token)
  local first, last = find(token, "[%w\x80-\xFF]"), #token
  if not first then return "" end
  while not find(token, "^[%w\x80-\xFF]", last) do last = last - 1 end
  return sub(token, first, last)
end

local function misspelt(text, candidates, threshold)
  local best, highest = nil, threshold
  local known = {}
  for i = 1, #candidates do known[i] = lower(candidates[i]) end
  for token in gmatch(text, "%S+") do
    local word = bare(token)
    for i = 1, #known do
      local score = likeness(word, known[i])
      if score >= threshold and (not best or score > highest) then best, highest = candidates[i], score end
    end
  end
  return best
end

function alc.match_enum(text, candidates, options)
  if type(text) ~= "string" then raise("alc.match_enum: text must be a string, got " .. type(text)) end
  if type(candidates) ~= "table" then raise("alc.match_enum: candidates must be an array, got " .. type(candidates)) end
  for i = 1, #candidates do
    if type(candidates[i]) ~= "string" then raise("alc.match_enum: candidate " .. i .. " must be a string, got " .. type(candidates[i])) end
  end
  local threshold = options ~= nil and options.threshold
  if threshold == nil or threshold == false then threshold = 0.7 end
  if type(threshold) ~= "number" then raise("alc.match_enum: threshold must be a number, got " .. type(threshold)) end
  local folded = lower(text)
  return mentioned(folded, candidates) or misspelt(folded, candidates, threshold)
end

-- ---- yes or no ----------------------------------------------------------------------------------------------------------------------

local meaning = {}
for word in gmatch("approved yes ok accept pass confirm agree true lgtm", "%a+") do meaning[word] = true end
for word in gmatch("rejected no deny block fail refuse disagree false", "%a+") do meaning[word] = false end

function alc.match_bool(text)
  if type(text) ~= "string" then raise("alc.match_bool: text must be a string, got " .. type(text)) end
  local verdict
  for word in gmatch(lower(text), "%w+") do
    local means = meaning[word]
    if means ~= nil then verdict = means end
  end
  return verdict
end
