"""What scripts see of the module `state`, in their own languages.

`update` is here because its function is the script's own, and may pause. Then the step ends, others may change the key meanwhile, and it is
called again with what they made of it.
"""

from typing import Final

JAVASCRIPT: Final = """
const MOST = 100;
const make = (space) => {
  const get = (key, fallback) => {
    const found = host.read(key, space);
    return found.found ? found.value : fallback;
  };
  const set_nx = (key, value, options) => host.set_nx(key, value, options, space);
  const compare_and_set = (key, expected, value, options) => host.compare_and_set(key, expected, value, options, space);
  const update = (key, change, fallback) => {
    const attempt = (left) => {
      const found = host.read(key, space);
      const write = (value) => host.replace(key, found.mark, value, left === 1, space) ? value : attempt(left - 1);
      const next = change(found.found ? found.value : fallback);
      return next !== null && typeof next === "object" && typeof next.then === "function" ? next.then(write) : write(next);
    };
    return attempt(MOST);
  };
  return {
    get,
    set: (key, value, options) => { host.set(key, value, options, space); },
    has: (key) => host.has(key, space),
    keys: (prefix) => host.keys(prefix, space),
    delete: (key) => host.delete(key, space),
    incr: (key, delta, initial) => host.incr(key, delta, initial, space),
    set_nx, setNx: set_nx,
    compare_and_set, compareAndSet: compare_and_set,
    update,
  };
};
module.exports = {
  ...make(),
  namespace: (name) => { host.space(name); return make(name); },
};
"""

LUA: Final = """
local MOST = 100
local function make(space)
  local state = {}
  function state.get(key, default)
    local found = host.read(key, space)
    if found.found then return found.value end
    return default
  end
  function state.set(key, value, options) host.set(key, value, options, space) end
  function state.has(key) return host.has(key, space) end
  function state.keys(prefix) return host.keys(prefix, space) end
  function state.delete(key) return host.delete(key, space) end
  function state.incr(key, delta, initial) return host.incr(key, delta, initial, space) end
  function state.set_nx(key, value, options) return host.set_nx(key, value, options, space) end
  function state.compare_and_set(key, expected, value, options)
    return host.compare_and_set(key, expected, value, options, space)
  end
  function state.update(key, change, default)
    for left = MOST, 1, -1 do
      local found = host.read(key, space)
      local value = default
      if found.found then value = found.value end
      value = change(value)
      if host.replace(key, found.mark, value, left == 1, space) then return value end
    end
  end
  return state
end
local state = make()
function state.namespace(name)
  host.space(name)
  return make(name)
end
return state
"""
