// Globals as on the web: writable, configurable, and not enumerable.
export function offer(values) {
  for (const [name, value] of Object.entries(values)) {
    Object.defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
  }
}
