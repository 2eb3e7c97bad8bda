local M = {}
function M.join(words) return table.concat(words, "-") end
return M
