// The two ways in which a schema can fail.
import { failure } from "../failure.js";

export const invalid = (path, message) => failure("SCHEMA_INVALID", `the schema is not valid: ${path}: ${message}`);

export const mismatch = (title, message) =>
  failure("SCHEMA_MISMATCH", `${title}: the answer does not fit the schema: ${message}`);
