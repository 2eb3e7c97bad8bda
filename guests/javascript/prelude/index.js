// The part of the guest that is JavaScript: web APIs that the engine has not, text for people, and the library of scripts.
// It runs once, before any script, and keeps nothing on globalThis that a script would not expect there.
import { removeAbsent } from "./absent.js";
import "./text.js";
import "./web.js";
import { addConsoleMethods } from "./console.js";
import { format, inspect } from "./inspect.js";
import { addLibrary, askModel } from "./library/index.js";

const native = globalThis.__holdfast;

native.format = format;
native.inspect = inspect;
native.askModel = askModel;
addConsoleMethods(globalThis.console);
addLibrary(globalThis.hf);
removeAbsent();
