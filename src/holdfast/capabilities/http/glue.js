// fetch, and axios-shaped verbs, over four host functions: two that a script waits for, two that are done within the step.
const READS = new Set(["GET", "HEAD", "OPTIONS"]);
const JSON_TYPE = "application/json";
const FORM_TYPE = "application/x-www-form-urlencoded;charset=UTF-8";
const TEXT_TYPE = "text/plain;charset=UTF-8";

function invalid(message) {
  return Object.assign(new TypeError(message), { code: "INVALID_ARGUMENT" });
}

class Headers {
  #pairs = [];
  constructor(given) {
    if (given === undefined || given === null) return;
    const pairs = typeof given[Symbol.iterator] === "function" ? given : Object.entries(given);
    for (const [name, value] of pairs) {
      if (value === undefined || value === null || value === false) continue;
      for (const one of Array.isArray(value) ? value : [value]) this.append(name, one);
    }
  }
  append(name, value) {
    this.#pairs.push([String(name).toLowerCase(), String(value)]);
  }
  set(name, value) {
    this.delete(name);
    this.append(name, value);
  }
  delete(name) {
    const wanted = String(name).toLowerCase();
    this.#pairs = this.#pairs.filter(([known]) => known !== wanted);
  }
  get(name) {
    const wanted = String(name).toLowerCase();
    const found = this.#pairs.filter(([known]) => known === wanted).map(([, value]) => value);
    return found.length ? found.join(", ") : null;
  }
  has(name) {
    return this.get(name) !== null;
  }
  getSetCookie() {
    return this.#pairs.filter(([name]) => name === "set-cookie").map(([, value]) => value);
  }
  forEach(callback, self) {
    for (const [name, value] of this) callback.call(self, value, name, this);
  }
  *entries() {
    for (const name of [...new Set(this.#pairs.map(([name]) => name))].sort()) yield [name, this.get(name)];
  }
  *keys() {
    for (const [name] of this) yield name;
  }
  *values() {
    for (const [, value] of this) yield value;
  }
  [Symbol.iterator]() {
    return this.entries();
  }
  pairs() {
    return this.#pairs.map((pair) => [...pair]);
  }
  toJSON() {
    return Object.fromEntries(this);
  }
}

// What goes out: text, bytes or a form, and the type that says so.
function bodyOf(body) {
  if (body === undefined || body === null) return [{}, null];
  if (typeof body === "string") return [{ text: body }, TEXT_TYPE];
  if (body instanceof URLSearchParams) return [{ text: String(body) }, FORM_TYPE];
  if (body instanceof ArrayBuffer) return [{ base64: host.pack(new Uint8Array(body)) }, null];
  if (ArrayBuffer.isView(body)) return [{ base64: host.pack(new Uint8Array(body.buffer, body.byteOffset, body.byteLength)) }, null];
  throw invalid("a body is text, bytes or URLSearchParams; write other values with JSON.stringify");
}

function asked(url, options) {
  const method = String(options.method ?? "GET").toUpperCase();
  const headers = new Headers(options.headers);
  const [body, type] = bodyOf(options.body);
  if (type !== null && !headers.has("content-type")) headers.set("content-type", type);
  const ask = { url: String(url), method, headers: headers.pairs(), ...body };
  if (options.redirect !== undefined) ask.redirect = options.redirect;
  if (options.timeoutMs !== undefined && options.timeoutMs !== null) ask.timeoutMs = options.timeoutMs;
  return ask;
}

// What came back, read in the ways that there are.
class Content {
  constructor(raw) {
    this.raw = raw;
  }
  bytes() {
    return this.raw.base64 === undefined ? new TextEncoder().encode(this.raw.text) : host.unpack(this.raw.base64);
  }
  text() {
    const text = this.raw.base64 === undefined ? this.raw.text : new TextDecoder().decode(this.bytes());
    return text.startsWith("\ufeff") ? text.slice(1) : text;
  }
  json() {
    return JSON.parse(this.text());
  }
  as(type) {
    switch (type) {
      case "text":
        return this.text();
      case "json":
        return this.json();
      case "bytes":
        return this.bytes();
      case "arraybuffer":
        return this.bytes().buffer;
      case undefined: {
        const text = this.text();
        try {
          return JSON.parse(text);
        } catch {
          return text;
        }
      }
    }
    throw invalid("a responseType is text, json, bytes or arraybuffer");
  }
}

function response(raw, options, give) {
  const content = new Content(raw);
  const made = {
    ok: raw.status >= 200 && raw.status < 300,
    status: raw.status,
    statusText: raw.statusText,
    url: raw.url,
    redirected: raw.redirected,
    headers: new Headers(raw.headers),
    text: () => give(() => content.text()),
    json: () => give(() => content.json()),
    bytes: () => give(() => content.bytes()),
    arrayBuffer: () => give(() => content.bytes().buffer),
    clone: () => response(raw, options, give),
  };
  if (options.responseType !== undefined) made.data = content.as(options.responseType);
  return made;
}

const later = async (read) => read();
const atOnce = (read) => read();

async function fetch(url, options) {
  const given = options ?? {};
  const ask = asked(url, given);
  return response(await (READS.has(ask.method) ? host.read(ask) : host.send(ask)), given, later);
}

function fetchSync(url, options) {
  const given = options ?? {};
  const ask = asked(url, given);
  return response(READS.has(ask.method) ? host.readSync(ask) : host.sendSync(ask), given, atOnce);
}

// ---- as axios has it

function located(config) {
  let url = String(config.url ?? "");
  if (config.baseURL !== undefined && !/^[a-z][a-z0-9+.-]*:|^\/\//i.test(url)) {
    url = url ? String(config.baseURL).replace(/\/+$/, "") + "/" + url.replace(/^\/+/, "") : String(config.baseURL);
  }
  if (config.params === undefined || config.params === null) return url;
  const query = new URLSearchParams();
  if (config.params instanceof URLSearchParams) {
    for (const [name, value] of config.params) query.append(name, value);
  } else {
    for (const [name, value] of Object.entries(config.params)) {
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one === undefined || one === null) continue;
        const key = Array.isArray(value) ? name + "[]" : name;
        query.append(key, one instanceof Date ? one.toISOString() : typeof one === "object" ? JSON.stringify(one) : String(one));
      }
    }
  }
  const [place] = url.split("#");
  return String(query) ? place + (place.includes("?") ? "&" : "?") + query : place;
}

function isPlain(data) {
  const other = data instanceof URLSearchParams || data instanceof ArrayBuffer || ArrayBuffer.isView(data);
  return typeof data !== "string" && data !== undefined && data !== null && !other;
}

async function request(first, second) {
  const config = typeof first === "string" ? { ...second, url: first } : { ...first };
  const method = (config.method = String(config.method ?? "get").toLowerCase());
  const headers = new Headers(config.headers);
  if (!headers.has("accept")) headers.set("accept", "application/json, text/plain, */*");
  let body = config.data;
  if (isPlain(body)) {
    body = JSON.stringify(body);
    if (!headers.has("content-type")) headers.set("content-type", JSON_TYPE);
  }
  const redirect = config.maxRedirects === 0 ? "manual" : "follow";
  const timeoutMs = config.timeout || undefined;
  const raw = asked(located(config), { method, headers: headers.pairs(), body, redirect, timeoutMs });
  const got = await (READS.has(raw.method) ? host.read(raw) : host.send(raw));
  const data = new Content(got).as(config.responseType);
  const { status, statusText } = got;
  const answer = { data, status, statusText, headers: new Headers(got.headers).toJSON(), config };
  const isValid = config.validateStatus === undefined ? (status) => status >= 200 && status < 300 : config.validateStatus;
  if (!isValid || isValid(status)) return answer;
  const error = new Error(`Request failed with status code ${status}`);
  const code = status >= 500 ? "ERR_BAD_RESPONSE" : "ERR_BAD_REQUEST";
  throw Object.assign(error, { code, status, config, response: answer, isAxiosError: true });
}

const bare = (method) => (url, config) => request({ ...config, method, url });
const full = (method) => (url, data, config) => request({ ...config, method, url, data });

module.exports = {
  fetch,
  fetchSync,
  request,
  get: bare("get"),
  head: bare("head"),
  options: bare("options"),
  post: full("post"),
  put: full("put"),
  patch: full("patch"),
  delete: bare("delete"),
  Headers,
};
