export { checked } from "./check.js";
export { mismatch } from "./failure.js";
export { mismatchOf } from "./validate.js";
