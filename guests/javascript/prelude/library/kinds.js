// Small questions about values.
import { isArray } from "./language.js";

export const isObject = (value) => typeof value === "object" && value !== null;

export const isRecord = (value) => isObject(value) && !isArray(value);

// What a person calls it.
export function kindOf(value) {
  if (value === null) return "null";
  return isArray(value) ? "array" : typeof value;
}
