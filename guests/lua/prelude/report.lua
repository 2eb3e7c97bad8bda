-- What an evaluation comes to: figures over all cases, and a sentence.
local alc, shared = ...
local sqrt, floor, sort, format, next = math.sqrt, math.floor, table.sort, string.format, next
local array = alc.array

-- Student's t for 95 %, two-sided, by degrees of freedom.
local T_TABLE = {
  {1, 12.706}, {2, 4.303}, {3, 3.182}, {4, 2.776}, {5, 2.571}, {6, 2.447}, {7, 2.365}, {8, 2.306}, {9, 2.262}, {10, 2.228},
  {12, 2.179}, {15, 2.131}, {20, 2.086}, {25, 2.060}, {30, 2.042}, {40, 2.021}, {60, 2.000}, {120, 1.980},
}

local function t_value(freedom)
  for i = 1, #T_TABLE do
    local degrees, value = T_TABLE[i][1], T_TABLE[i][2]
    if freedom == degrees then return value end
    if freedom < degrees then
      local before = T_TABLE[i - 1]
      return before[2] + (value - before[2]) * (freedom - before[1]) / (degrees - before[1])
    end
  end
  return 1.960
end

local function clamped(value) return value < 0 and 0 or value > 1 and 1 or value end

local function scores_of(results)
  local values, sum, n = {}, 0, #results
  for i = 1, n do
    values[i] = results[i].score
    sum = sum + values[i]
  end
  if n == 0 then return {n = 0, mean = 0, std_dev = 0, min = 0, max = 0, median = 0} end
  sort(values)
  local mean, squares = sum / n, 0
  for i = 1, n do squares = squares + (values[i] - mean) ^ 2 end
  local middle = floor(n / 2)
  local median = n % 2 == 1 and values[middle + 1] or (values[middle] + values[middle + 1]) / 2
  return {n = n, mean = mean, std_dev = n > 1 and sqrt(squares / (n - 1)) or 0, min = values[1], max = values[n], median = median}
end

local function interval(scores)
  if scores.n < 2 then return {lower = clamped(scores.mean), upper = clamped(scores.mean)} end
  local half = t_value(scores.n - 1) * scores.std_dev / sqrt(scores.n)
  return {lower = clamped(scores.mean - half), upper = clamped(scores.mean + half)}
end

-- How likely one of k cases, drawn at random, has passed.
local function pass_at(k, n, passed)
  local none = 1
  for i = 0, k - 1 do none = none * (n - passed - i) / (n - i) end
  return 1 - (none > 0 and none or 0)
end

local function count_passed(results)
  local passed = 0
  for i = 1, #results do passed = passed + (results[i].passed and 1 or 0) end
  return passed
end

local function by_tag(results)
  local groups, tags = {}, {}
  for i = 1, #results do
    local own = results[i].tags or {}
    for j = 1, #own do
      groups[own[j]] = groups[own[j]] or {}
      groups[own[j]][#groups[own[j]] + 1] = results[i]
    end
  end
  for tag, members in next, groups do
    local passed = count_passed(members)
    tags[tag] = {total = #members, passed = passed, pass_rate = passed / #members, mean_score = scores_of(members).mean}
  end
  return tags
end

function shared.report(name, results)
  local total, passed, scores, failures = #results, count_passed(results), scores_of(results), array()
  for i = 1, total do
    if not results[i].passed then failures[#failures + 1] = results[i] end
  end
  local rate = total > 0 and passed / total or 0
  return {
    name = name,
    aggregated = {
      total = total,
      passed = passed,
      pass_rate = rate,
      pass_at_1 = rate,
      pass_at_5 = total >= 5 and pass_at(5, total, passed) or nil,
      pass_at_10 = total >= 10 and pass_at(10, total, passed) or nil,
      scores = scores,
      ci_95 = interval(scores),
      by_tag = by_tag(results),
    },
    failures = failures,
    results = results,
    summary = format("%s: %d of %d passed (%.1f %%), mean score %.3f", name, passed, total, 100 * rate, scores.mean),
  }
end
