// The engine is built without threads, so without Atomics. A package lists its methods when it loads: let it find none.
const missing = !("Atomics" in globalThis);

if (missing) globalThis.Atomics = {};

export function removeAbsent() {
  if (missing) delete globalThis.Atomics;
}
