// What the library has from C. See library.c.
export const { execution, extract, importModule, log, numbers, parse, progress, require, stat } = globalThis.__holdfast;
export const { call, llm, query, tool } = globalThis.hf;
