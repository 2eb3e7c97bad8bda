// Where schemas lie in a schema, and what other keywords of JSON Schema (2020-12) must be. Those that are not here are ignored.
import { isArray, isFinite, isSafeInteger, keys, RegExp, values } from "../language.js";
import { isRecord } from "../kinds.js";

// Applied to the value itself.
export const HERE = ["not", "if", "then", "else"];
export const HERE_LISTS = ["allOf", "anyOf", "oneOf"];
// Applied to parts of the value, or only referred to.
export const BELOW = ["additionalProperties", "propertyNames", "items", "contains"];
export const BELOW_LISTS = ["prefixItems"];
export const BELOW_MAPS = ["properties", "patternProperties", "$defs", "definitions"];

const TYPES = ["null", "boolean", "object", "array", "number", "integer", "string"];

// With Unicode, as the standard has it; a pattern that makes sense only without is taken so.
export function pattern(source) {
  try {
    return new RegExp(source, "u");
  } catch {
    return new RegExp(source);
  }
}

function isPattern(source) {
  try {
    return typeof source === "string" && pattern(source) !== null;
  } catch {
    return false;
  }
}

const isCount = (value) => isSafeInteger(value) && value >= 0;
const isNumber = (value) => typeof value === "number" && isFinite(value);
const isNames = (value) => isArray(value) && value.every((item) => typeof item === "string");
const isType = (value) => TYPES.includes(value);
const isTypes = (value) => isType(value) || (isArray(value) && value.length > 0 && value.every(isType));

const COUNTS = ["Length", "Items", "Properties", "Contains"].flatMap((what) => [`min${what}`, `max${what}`]);

// Names of keywords, what holds for them, and what to say if it does not.
export const RULES = [
  [["type"], isTypes, `must be one of ${TYPES.join(", ")}, or a list of these`],
  [["enum"], isArray, "must be a list of values"],
  [["required"], isNames, "must be a list of names"],
  [["dependentRequired"], (value) => isRecord(value) && values(value).every(isNames), "must be an object of lists of names"],
  [COUNTS, isCount, "must be a whole number, not negative"],
  [["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], isNumber, "must be a number"],
  [["multipleOf"], (value) => isNumber(value) && value > 0, "must be a number above 0"],
  [["uniqueItems"], (value) => typeof value === "boolean", "must be true or false"],
  [["pattern"], isPattern, "must be a regular expression"],
  [["patternProperties"], (value) => !isRecord(value) || keys(value).every(isPattern), "must have regular expressions as keys"],
  [["$ref"], (value) => typeof value === "string", "must be a string"],
];
