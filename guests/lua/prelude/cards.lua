-- Cards: what has been measured, kept for good. Host functions of the module `card`, if the template grants it.
local alc = ...
local call = alc.call

local names = {
  "create", "get", "list", "append", "get_by_alias", "alias_set", "alias_list", "find", "write_samples", "read_samples", "lineage",
  "sink_backfill",
}
alc.card = {}
for i = 1, #names do
  local name = names[i]
  alc.card[name] = function(...) return call("card." .. name, ...) end
end
