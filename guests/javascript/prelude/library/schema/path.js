// Where in a value something is: $.steps[0].title
import { stringify } from "../language.js";

const IDENTIFIER = /^[A-Za-z_$][A-Za-z0-9_$]*$/;

export const member = (path, key) => (IDENTIFIER.test(key) ? `${path}.${key}` : `${path}[${stringify(key)}]`);

export const element = (path, index) => `${path}[${index}]`;
