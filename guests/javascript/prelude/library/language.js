// What the library uses of the language, as it was before any script ran. A script that replaces these harms only itself.
// For the same reason async functions of the library await what they return: else `then` of the script's promises is called.
export const { Array, Error, Map, Number, Promise, RegExp, Set, String, TextEncoder, TypeError } = globalThis;
export const { create, defineProperty, freeze, hasOwn, keys, values } = Object;
export const { isArray } = Array;
export const { isFinite, isInteger, isSafeInteger } = Number;
export const { abs, ceil, floor, max, min, round, sqrt } = Math;
export const { now } = Date;
export const { stringify } = JSON;
