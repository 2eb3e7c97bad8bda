// $ref: only within the schema itself, as a JSON pointer.
import { hasOwn, isArray } from "../language.js";
import { isObject, isRecord } from "../kinds.js";
import { invalid } from "./failure.js";

const { decodeURIComponent } = globalThis;

function steps(ref, path) {
  if (ref === "#") return [];
  if (!ref.startsWith("#/")) throw invalid(path, "only # and JSON pointers are known here, such as #/$defs/name");
  try {
    return decodeURIComponent(ref.slice(2)).split("/").map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
  } catch {
    throw invalid(path, "is no JSON pointer");
  }
}

export function target(root, ref, path) {
  let found = root;
  for (const step of steps(ref, path)) {
    found = isObject(found) && hasOwn(found, step) && !(isArray(found) && step === "length") ? found[step] : undefined;
  }
  if (isRecord(found) || typeof found === "boolean") return found;
  throw invalid(path, "leads to no schema");
}
