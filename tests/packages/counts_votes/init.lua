-- A computation: it asks nobody, and takes its arguments one by one.
local M = {}
M.meta = { name = "counts_votes", version = "0.1.0", description = "The winner of ranked ballots", category = "aggregation" }
M.spec = { entries = { winner = { args = { "ballots" } } } }

function M.winner(ballots)
  local points = {}
  for _, ballot in ipairs(ballots) do
    for place, name in ipairs(ballot) do points[name] = (points[name] or 0) + #ballot - place end
  end
  local best
  for name, count in pairs(points) do
    if not best or count > points[best] or (count == points[best] and name < best) then best = name end
  end
  return best, points
end

function M.run(ctx)
  local best, points = M.winner(ctx.ballots)
  return { winner = best, points = points }
end

return M
