"""Script sessions that survive anything: JavaScript and Lua in a WebAssembly sandbox."""
