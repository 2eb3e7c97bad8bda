-- What waits is often called in the last place, as in `return alc.llm(prompt)`. These calls are found in stack traces all the same.
local alc, shared = ...

for name in ("llm llm_batch llm_safe llm_json ground specify cache parallel fork exit"):gmatch("%S+") do
  alc[name] = shared.entrance(alc[name])
end
