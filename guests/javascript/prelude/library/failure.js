// Errors with a code, which scripts and hosts tell apart.
import { Error } from "./language.js";
import { isObject } from "./kinds.js";
import { put } from "./records.js";

export function failure(code, message) {
  const error = new Error(message);
  put(error, "code", code);
  return error;
}

// What was thrown, as one line. Anything can be thrown, and reading it may throw again.
export function messageOf(thrown) {
  try {
    return isObject(thrown) && typeof thrown.message === "string" ? thrown.message : `${thrown}`;
  } catch {
    return "an error that cannot be read";
  }
}
