local M = {}
function M.split(text)
  local found = {}
  for word in text:gmatch("%a+") do found[#found + 1] = word end
  return found
end
return M
