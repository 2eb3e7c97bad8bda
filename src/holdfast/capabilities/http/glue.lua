-- fetch, and axios-shaped verbs, over four host functions: two that a script waits for, two that are done within the step.
local error, ipairs, pairs, pcall, rawget = error, ipairs, pairs, pcall, rawget
local setmetatable, tostring, type = setmetatable, tostring, type
local string, table = {format = string.format, lower = string.lower, upper = string.upper, match = string.match, gsub = string.gsub,
  byte = string.byte, sub = string.sub, find = string.find}, {sort = table.sort, concat = table.concat}
local valid = utf8.len
local READS = {GET = true, HEAD = true, OPTIONS = true}

local failure = {__tostring = function(self) return self.message end}
local function raise(code, message, more)
  local made = setmetatable({code = code, message = message}, failure)
  for name, value in pairs(more or {}) do made[name] = value end
  error(made, 0)
end

local function sorted(given)
  local names = {}
  for name in pairs(given) do names[#names + 1] = tostring(name) end
  table.sort(names)
  return names
end

-- {name = value} or {name = {value, value}} as pairs; names in lower case.
local function headers_of(given)
  local made, known = {}, {}
  if given ~= nil and type(given) ~= "table" then raise("INVALID_ARGUMENT", "headers are a table by name") end
  for _, name in ipairs(sorted(given or {})) do
    local value = given[name]
    for _, one in ipairs(type(value) == "table" and value or {value}) do
      made[#made + 1] = {string.lower(name), tostring(one)}
      known[string.lower(name)] = true
    end
  end
  return made, known
end

local function asked(url, options)
  local method = string.upper(tostring(options.method or "GET"))
  local headers, known = headers_of(options.headers)
  local ask = {url = url, method = method, redirect = options.redirect, timeoutMs = options.timeoutMs}
  local body = options.body
  if body ~= nil then
    if type(body) ~= "string" then raise("INVALID_ARGUMENT", "a body is a string") end
    if valid(body) then ask.text = body else ask.base64 = host.pack(body) end
    if not known["content-type"] then headers[#headers + 1] = {"content-type", "text/plain;charset=UTF-8"} end
  end
  ask.headers = headers
  return ask
end

local function bytes_of(raw)
  if raw.text ~= nil then return raw.text end
  return host.unpack(raw.base64)
end

-- Any case will do; get(name) is there as in JavaScript.
local function response_headers(raw)
  local made = {}
  for _, pair in ipairs(raw.headers) do
    local name, value = pair[1], pair[2]
    made[name] = made[name] and made[name] .. ", " .. value or value
  end
  return setmetatable(made, {__index = function(self, name)
    if name == "get" then return function(wanted) return rawget(self, string.lower(wanted)) end end
    return type(name) == "string" and rawget(self, string.lower(name)) or nil
  end})
end

local function as(raw, kind)
  local text = bytes_of(raw)
  if kind == "json" then return host.parse(text) end
  if kind == "text" or kind == "bytes" then return text end
  if kind ~= nil then raise("INVALID_ARGUMENT", "a responseType is text, json or bytes") end
  local ok, value = pcall(host.parse, text)
  if ok then return value end
  return text
end

local function response(raw, options)
  local made = {ok = raw.status >= 200 and raw.status < 300, status = raw.status, statusText = raw.statusText, url = raw.url,
    redirected = raw.redirected, headers = response_headers(raw)}
  function made.text() return bytes_of(raw) end
  function made.bytes() return bytes_of(raw) end
  function made.json() return host.parse(bytes_of(raw)) end
  if options.responseType ~= nil then made.data = as(raw, options.responseType) end
  return made
end

local http = {}

function http.fetch(url, options)
  options = options or {}
  local ask = asked(url, options)
  return response((READS[ask.method] and host.read or host.send)(ask), options)
end

function http.fetchSync(url, options)
  options = options or {}
  local ask = asked(url, options)
  return response((READS[ask.method] and host.readSync or host.sendSync)(ask), options)
end

-- ---- as axios has it

local function escaped(value)
  return (string.gsub(tostring(value), "[^%w%-%._~]", function(c) return string.format("%%%02X", string.byte(c)) end))
end

local function located(config)
  local url = tostring(config.url or "")
  if config.baseURL and not string.match(url, "^%a[%w+.-]*:") and not string.match(url, "^//") then
    url = url == "" and config.baseURL or string.gsub(config.baseURL, "/+$", "") .. "/" .. string.gsub(url, "^/+", "")
  end
  local parts = {}
  for _, name in ipairs(sorted(config.params or {})) do
    local value = config.params[name]
    local many = type(value) == "table"
    for _, one in ipairs(many and value or {value}) do
      parts[#parts + 1] = escaped(many and name .. "[]" or name) .. "=" .. escaped(one)
    end
  end
  if #parts == 0 then return url end
  url = string.gsub(url, "#.*$", "")
  return url .. (string.find(url, "?", 1, true) and "&" or "?") .. table.concat(parts, "&")
end

local function is_fine(status) return status >= 200 and status < 300 end

function http.request(config, more)
  local given = {}
  if type(config) == "string" then config = {url = config} end
  for _, part in ipairs({more or {}, config}) do
    for name, value in pairs(part) do given[name] = value end
  end
  local headers, known = {}, {}
  for name, value in pairs(given.headers or {}) do headers[name], known[string.lower(tostring(name))] = value, true end
  if not known.accept then headers.accept = "application/json, text/plain, */*" end
  local body = given.data
  if body ~= nil and type(body) ~= "string" then
    body = host.dump(body)
    if not known["content-type"] then headers["content-type"] = "application/json" end
  end
  local timeout = given.timeout
  if timeout == 0 then timeout = nil end
  local redirect = given.maxRedirects == 0 and "manual" or "follow"
  local ask = asked(located(given), {method = given.method, headers = headers, body = body, redirect = redirect, timeoutMs = timeout})
  local raw = (READS[ask.method] and host.read or host.send)(ask)
  local answer = {data = as(raw, given.responseType), status = raw.status, statusText = raw.statusText,
    headers = response_headers(raw), config = given}
  if (given.validateStatus or is_fine)(raw.status) then return answer end
  local code = raw.status >= 500 and "ERR_BAD_RESPONSE" or "ERR_BAD_REQUEST"
  raise(code, "Request failed with status code " .. raw.status, {status = raw.status, response = answer})
end

local function with(config, more)
  local made = {}
  for _, part in ipairs({config or {}, more}) do
    for name, value in pairs(part) do made[name] = value end
  end
  return made
end

for _, name in ipairs({"get", "head", "options", "delete"}) do
  http[name] = function(url, config) return http.request(with(config, {method = name, url = url})) end
end
for _, name in ipairs({"post", "put", "patch"}) do
  http[name] = function(url, data, config) return http.request(with(config, {method = name, url = url, data = data})) end
end

return http
