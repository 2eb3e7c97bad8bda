// Texts: cut into pieces, told apart, and read for numbers.
import { isSafeInteger, max, min, Number, RegExp, String, TextEncoder, TypeError } from "./language.js";

// ---- chunk

// As a file has lines: the last line feed ends the last one.
function linesOf(text) {
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function count(value, usual, name) {
  if (value === undefined || value === null) return usual;
  if (!isSafeInteger(value) || value < 0) throw new TypeError(`hf.chunk: ${name} must be a whole number, not negative`);
  return value;
}

export function chunk(text, options) {
  if (typeof text !== "string") throw new TypeError("hf.chunk: the text must be a string");
  const size = count(options?.size, 50, "size");
  const step = max(1, size - count(options?.overlap, 0, "overlap"));
  const byChars = options?.mode === "chars";
  const parts = byChars ? [...text] : linesOf(text);
  const chunks = [];
  for (let start = 0; size && start < parts.length; start += step) {
    chunks.push(parts.slice(start, start + size).join(byChars ? "" : "\n"));
    if (start + size >= parts.length) break;
  }
  return chunks;
}

// ---- fingerprint

const encoder = new TextEncoder();

// DJB2 of the text in UTF-8, whatever its case (of ASCII) and white space.
export function fingerprint(value) {
  const lower = String(value).replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  const text = lower.replace(/[ \t\n\v\f\r]+/g, " ").replace(/^ | $/g, "");
  let hash = 5381;
  for (const byte of encoder.encode(text)) hash = (hash * 33 + byte) >>> 0;
  return hash.toString(16).padStart(8, "0");
}

// ---- numbers

export function parseScore(value, fallback = 5) {
  const digits = /[0-9]+/.exec(String(value));
  return digits ? min(10, max(1, Number(digits[0]))) : fallback;
}

const NUMBER = /-?[0-9]+(?:\.[0-9]+)?/;

// With a pattern, its first group, or all that it matches if it has none.
export function parseNumber(text, pattern) {
  if (typeof text !== "string") return null;
  const found = (pattern === undefined || pattern === null ? NUMBER : new RegExp(pattern)).exec(text);
  const digits = (found?.[1] ?? found?.[0] ?? "").trim();
  const number = digits === "" ? null : Number(digits);
  return number === number ? number : null;
}
