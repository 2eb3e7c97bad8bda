// axios over the module `http`, which a template grants or not: it is looked for when a request is made, not when axios is loaded.
const axios = require("axios");
const { AxiosError, AxiosHeaders } = axios;
const load = globalThis.require;

function unanswered(error, config) {
  const code = error?.code === "HTTP_TIMEOUT" ? AxiosError.ECONNABORTED : (error?.code ?? AxiosError.ERR_NETWORK);
  return Object.assign(new AxiosError(error?.message ?? String(error), code, config), { cause: error });
}

function read(response, type) {
  if (type === "arraybuffer") return response.arrayBuffer();
  if (type === "bytes") return response.bytes();
  return response.text();
}

async function adapter(config) {
  if (config.signal?.aborted || config.cancelToken?.reason) throw new axios.CanceledError(null, config);
  const headers = AxiosHeaders.from(config.headers).toJSON();
  const options = {
    method: (config.method ?? "get").toUpperCase(),
    headers,
    body: config.data,
    redirect: config.maxRedirects === 0 ? "manual" : "follow",
    timeoutMs: config.timeout || undefined,
  };
  if (config.auth) {
    const { username = "", password = "" } = config.auth;
    const bytes = new TextEncoder().encode(`${username}:${password}`);
    headers.Authorization = "Basic " + btoa(String.fromCharCode(...bytes));
  }
  let response, data;
  try {
    response = await load("http").fetch(axios.getUri(config), options);
    data = await read(response, config.responseType);
  } catch (error) {
    throw unanswered(error, config);
  }
  const { status, statusText } = response;
  const answer = { data, status, statusText, headers: new AxiosHeaders(response.headers.toJSON()), config, request: null };
  if (!config.validateStatus || config.validateStatus(status)) return answer;
  const code = status >= 500 ? AxiosError.ERR_BAD_RESPONSE : AxiosError.ERR_BAD_REQUEST;
  throw new AxiosError(`Request failed with status code ${status}`, code, config, null, answer);
}

axios.defaults.adapter = adapter;
module.exports = axios;
