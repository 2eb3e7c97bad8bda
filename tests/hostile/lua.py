"""Attempts in Lua: on the bridge, on the glue, on the language, and by what other modules are given."""

from tests.hostile import shared
from tests.hostile.attempts import Attempt
from tests.hostile.attempts import lua_text as text

_CODE = (
    "local function code(f, ...) local ok, e = pcall(f, ...) if ok then return 'got through' end"
    " return type(e) == 'table' and e.code or tostring(e) end "
)
_EACH = (
    _CODE + "local function each(fs) local seen, all = {}, {} for _, f in ipairs(fs) do local c = code(f)"
    " if not seen[c] then seen[c] = true all[#all + 1] = c end end table.sort(all) return table.concat(all, ',') end "
)
_VERBS = (
    "{function() return fs.readFileSync(p) end, function() return fs.readdirSync(p) end, function() return fs.statSync(p) end,"
    " function() return fs.existsSync(p) end, function() fs.writeFileSync(p, 'x') end, function() fs.mkdirSync(p, {recursive = true}) end,"
    " function() fs.rmSync(p, {recursive = true, force = true}) end, function() fs.renameSync(p, 'taken') end,"
    " function() fs.renameSync('note.txt', p) end}"
)
_MEMORY = "local db = require('database') db.configure('sqlite3', ':memory:') "
_POSTGRESQL = "local db = require('database') db.configure('postgresql', 'main') "


def _list(words: list[str]) -> str:
    return "alc.array({" + ", ".join(map(text, words)) + "})"


SHARED = [
    *[Attempt(f"every verb: {p[:40]}", f"{_EACH} local fs, p = require('fs'), {text(p)} return each({_VERBS})", "INVALID_PATH") for p in shared.EVERY_VERB],
    *[Attempt(f"read: {p[:40]}", f"return require('fs').readFileSync({text(p)})", ends) for p, ends in shared.READ_ONLY],
    *[Attempt(f"require: {s[:40]}", f"return require({text(s)})", ends) for s, ends in shared.SPECIFIERS],
    *[Attempt(f"fetch: {u[:60]}", f"return require('http').fetchSync({text(u)})", ends) for u, ends in shared.URLS],
    *[Attempt(f"sqlite: {s[:60]}", f"{_MEMORY} return db.query({text(s)})", ends) for s, ends in shared.SQLITE],
    *[Attempt(f"postgresql: {s[:60]}", f"{_POSTGRESQL} return db.exec({text(s)})", ends) for s, ends in shared.POSTGRESQL],
    *[Attempt(f"configure: {a[:40]}", f"require('database').configure({text(d)}, {text(a)})", ends) for d, a, ends in shared.DATABASES],
    *[Attempt(f"run: {p[:40]}", f"return require('exec').run({text(p)}, {{'a'}})", "PROGRAM_NOT_ALLOWED") for p in shared.PROGRAMS],
    *[Attempt(f"arguments: {str(a)[:40]}", f"return require('exec').spawn('/bin/echo', {_list(a)})", "ARGUMENTS_NOT_ALLOWED") for a in shared.ARGUMENTS],
    *[Attempt(f"variable: {n}", f"return require('exec').spawn('/bin/echo', {{'a'}}, {{env = {{[{text(n)}] = 'x'}}}})", "VARIABLE_NOT_ALLOWED") for n in shared.VARIABLES],
    *[Attempt(f"cwd: {f}", f"return require('exec').spawn('/bin/echo', {{'a'}}, {{cwd = {text(f)}}})", "INVALID_PATH") for f in shared.FOLDERS],
]  # fmt: skip

LANGUAGE = [
    Attempt("libraries that are not there", "local found = {} for _, n in ipairs({'io', 'ffi', 'jit', 'dofile', 'loadfile', 'loadlib', 'arg', 'newproxy'}) do if _G[n] ~= nil then found[#found + 1] = n end end return table.concat(found, ',')", ""),
    Attempt("what is left of os", "local found = {} for _, n in ipairs({'execute', 'exit', 'getenv', 'remove', 'rename', 'tmpname', 'setlocale'}) do if os[n] ~= nil then found[#found + 1] = n end end return table.concat(found, ',')", ""),
    Attempt("what is left of debug", "local found = {} for n in pairs(debug) do found[#found + 1] = n end return table.concat(found, ',')", "traceback"),
    Attempt("what is left of package", "local found = {} for _, n in ipairs({'loadlib', 'cpath', 'searchpath', 'searchers'}) do if package[n] ~= nil then found[#found + 1] = n end end return table.concat(found, ',')", ""),
    Attempt("string.dump", "return string.dump(function() end)", "error"),
    Attempt("load of bytecode", "return select(2, load('\\27Lua\\84\\0\\25\\147\\r\\n\\26\\n', 'x', 'b')) ~= nil", True),
    Attempt("load of bytecode in pieces", "local n = 0 return select(2, load(function() n = n + 1 return n == 1 and '\\27Lua' or nil end)) ~= nil", True),
    Attempt("a chunk has no more than a script", "return load('return io, os.execute')() == nil", True),
    Attempt("an environment of one's own", "return load('return require', 'x', 't', {})() == nil", True),
    Attempt("a name of a chunk that lies", "return load('return require(\"../secret\")', '@<out>/x.lua')()", "INVALID_PATH"),
    Attempt("a name of a chunk that lies, in the worktree", "return load('return require(\"../../secret\")', '@lib/x.lua')()", "INVALID_PATH"),
    Attempt("package.path", "package.path = '<out>/?.lua' return require('secret')", "MODULE_NOT_FOUND"),
    Attempt("package.searchers of one's own", "package.searchers = {function() return function() return require('../secret') end end} return require('nowhere')", "MODULE_NOT_FOUND"),
    Attempt("package.preload", "package.preload.exec = function() return alc.call('exec.fork', '/bin/sh') end return require('exec')", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("the registry", "local r = debug.getregistry return r == nil", True),
    Attempt("upvalues of the glue", "return debug.getupvalue == nil and debug.setupvalue == nil and debug.sethook == nil", True),
    Attempt("a finalizer that calls the host", "setmetatable({}, {__gc = function() alc.call('exec.fork') end}) collectgarbage() return 'over'", "over"),
    Attempt("a memory that grows", "local t = {} for i = 1, 1e9 do t[i] = string.rep('x', 1 << 20) .. i end", "LIMIT_EXCEEDED"),
    Attempt("a stack without end", "local function f() return 1 + f() end return f()", "error|LIMIT_EXCEEDED"),
    Attempt("a traceback names no file of the host", "local t = debug.traceback() return t:find('/tmp', 1, true) == nil and t:find('.py', 1, true) == nil", True),
    Attempt("addresses", "return tostring(print):find('0x7f') == nil", True),
]  # fmt: skip

BRIDGE = [
    Attempt("a function that is not granted", "return alc.call('exec.fork', '/bin/sh')", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("a Python name", "return alc.call('fs.__init__')", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("a name with NUL", "return alc.call('exec.run\\0', '/bin/sh')", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("a name that is no UTF-8", "return alc.call('\\255\\254')", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("a name with quotes", "return alc.call('fs.readFileSync\",[\"/etc/passwd\"]]')", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("a number as a name", "return alc.call(5)", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("a waiting function within a step", "return alc.call('exec.spawn', '/bin/sh')", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("a function of a step as a tool", "return alc.tool('exec.run', {'/bin/sh', {'-c', 'id'}})", "paused"),
    Attempt("a tool that is not granted", "return alc.tool('shell', {'id'})", "paused"),
    Attempt("a tool by query", "return alc.query('tool', {name = 'exec.spawn', args = {'/bin/sh', {'-c', 'id'}}})", "PROGRAM_NOT_ALLOWED"),
    Attempt("a tool whose options name another", "return alc.tool('exec.none', {}, {name = 'exec.spawn', args = {'/bin/sh'}})", "paused"),
    Attempt("a tool without a name", "return alc.query('tool', {args = {'/bin/sh'}})", "VALIDATION_ERROR"),
    Attempt("a tool whose name is a table", "return alc.query('tool', {name = {'exec.spawn'}})", "VALIDATION_ERROR"),
    Attempt("a batch with a tool in it", "return alc.query_batch({{kind = 'tool', payload = {name = 'exec.spawn', args = {'/bin/sh'}}}})", "PROGRAM_NOT_ALLOWED"),
    Attempt("a kind of query of one's own", "return alc.query('exec', {cmd = '/bin/sh'})", "VALIDATION_ERROR"),
    Attempt("arguments that are no list", "return alc.tool('exec.spawn', {cmd = '/bin/sh'})", "INVALID_ARGUMENT"),
    Attempt("tags of the bridge", "return alc.call('fs.readFileSync', {['$'] = 'bytes', v = 'Li4vc2VjcmV0LnR4dA=='})", "INVALID_ARGUMENT"),
    Attempt("a value that contains itself", "local t = {} t.t = t alc.call('state.set', 'k', t)", "INVALID_ARGUMENT"),
    Attempt("a value that is very deep", "local t = {} for i = 1, 5000 do t = {t} end alc.call('state.set', 'k', t)", "INVALID_ARGUMENT|VALUE_REFUSED"),
    Attempt("keys that are tables", "alc.call('state.set', 'k', {[{}] = 1})", "INVALID_ARGUMENT"),
    Attempt("keys that are no UTF-8", "alc.call('state.set', 'k', {['\\255'] = 1})", "INVALID_ARGUMENT"),
    Attempt("a coroutine as a value", "alc.call('state.set', 'k', coroutine.create(print))", "INVALID_ARGUMENT"),
    Attempt("a very long name", "return alc.call(string.rep('x', 100000))", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("calls without end", "local clock = require('clock') while true do clock.now() end", "CALLS_EXCEEDED"),
    Attempt("a query in a coroutine of one's own", "local co = coroutine.wrap(function() return alc.tool('exec.spawn', {'/bin/sh'}) end) return co()", "PROGRAM_NOT_ALLOWED"),
    Attempt("an answer by resume", "local co = coroutine.create(function() return alc.tool('shell', {}) end) coroutine.resume(co) return coroutine.resume(co, {code = 0})", "paused"),
]  # fmt: skip

METATABLES = [
    Attempt("a path that is a table", "return require('fs').readFileSync(setmetatable({}, {__tostring = function() return '../secret.txt' end, __name = 'string'}))", "INVALID_ARGUMENT"),
    Attempt("options by __index", "require('fs').rmSync('lib', setmetatable({}, {__index = {recursive = true, force = true}}))", "IS_FOLDER"),
    Attempt("options by __pairs", "require('fs').rmSync('lib', setmetatable({}, {__pairs = function() return next, {recursive = true}, nil end}))", "IS_FOLDER"),
    Attempt("arguments by __len and __index", "return require('exec').run('/bin/echo', setmetatable({}, {__len = function() return 1 end, __index = function() return '-n' end}))", "INVALID_ARGUMENT|ARGUMENTS_NOT_ALLOWED"),
    Attempt("an __index that calls the host", "return require('http').fetchSync('http://here.test:<port>/open', setmetatable({}, {__index = function() return require('fs').readFileSync('../secret.txt') end}))", "INVALID_PATH"),
    Attempt("an __index that changes its mind", "local n = 0 return require('http').fetchSync('http://here.test:<port>/open', setmetatable({}, {__index = function(_, k) if k ~= 'method' then return nil end n = n + 1 return n > 1 and 'GET' or 'POST' end}))", "METHOD_NOT_ALLOWED"),
    Attempt("the metatable of strings", "local m = getmetatable('') m.__index = function() return function() return 'GET' end end m.__concat = function() return 'x' end return require('http').fetchSync('http://here.test:<port>/closed')", "URL_NOT_ALLOWED"),
    Attempt("string.upper is replaced", "string.upper = function() return 'GET' end string.lower = function() return 'x' end return require('http').fetchSync('http://here.test:<port>/open', {method = 'POST', headers = {Host = 'x'}}).status", 200),
    Attempt("a metatable of numbers and nil", "return getmetatable(nil) == nil and getmetatable(5) == nil and getmetatable(print) == nil", True),
    Attempt("alc is replaced", "alc.call = function() return 'forged' end local real = hf alc, hf = {}, {} return require('fs').readFileSync('../secret.txt')", "INVALID_PATH"),
    Attempt("alc is replaced before the glue is loaded", "alc.call, alc.tool = function() return 'forged' end, function() return {code = 0} end return require('exec').run('/bin/sh')", "forged|PROGRAM_NOT_ALLOWED"),
    Attempt("ipairs and select are replaced", "ipairs = function() return function() end end select = function() return '/bin/sh' end return require('exec').spawn('/bin/sh')", "error"),
    Attempt("pcall is replaced", "pcall = function() return true, 'forged' end error = function() end return require('fs').readFileSync('../secret.txt')", "INVALID_PATH"),
    Attempt("the metatable of an error", "local ok, e = pcall(require('fs').readFileSync, '../secret.txt') local m = getmetatable(e) if type(m) == 'table' then m.__index = {code = 'forged'} m.__tostring = function() return 'forged' end end return require('fs').readFileSync('../secret.txt')", "INVALID_PATH"),
    Attempt("a function of a module is replaced", "require('fs').readFileSync = function() return 'forged' end return alc.call('fs.readFileSync', '../secret.txt')", "INVALID_PATH"),
    Attempt("package.loaded is replaced", "package.loaded.fs = {readFileSync = function() return 'forged' end} return alc.call('fs.readFileSync', '../secret.txt')", "INVALID_PATH"),
    Attempt("null in the place of a path", "return require('fs').readFileSync(alc.null)", "INVALID_ARGUMENT"),
    Attempt("a marked array as options", "require('fs').rmSync('lib', alc.array({}))", "INVALID_ARGUMENT|IS_FOLDER"),
    Attempt("a weak table as arguments", "return require('exec').run('/bin/echo', setmetatable({'-n'}, {__mode = 'v'}))", "ARGUMENTS_NOT_ALLOWED"),
    Attempt("a hole in the arguments", "return require('exec').spawn('/bin/echo', {'a', nil, 'b'})", "INVALID_ARGUMENT"),
    Attempt("the environment of the glue", "_ENV = setmetatable({}, {__index = _G, __newindex = function() end}) return require('fs').readFileSync('../secret.txt')", "INVALID_PATH"),
    Attempt("the metatable of the globals", "setmetatable(_G, {__index = function(_, n) return alc.call('exec.fork', n) end}) return undefined_name", "HOST_FUNCTION_NOT_FOUND"),
]  # fmt: skip

MODULES = [
    Attempt("a file with the name of a native module", "return require('fs').stolen", None),
    Attempt("a folder with the name of a native module", "return require('exec').stolen", None),
    Attempt("a native name with dots", "return require('exec.run')", "MODULE_NOT_FOUND|MODULE_NOT_GRANTED"),
    Attempt("a name with empty parts", "return require('..secret')", "INVALID_PATH"),
    Attempt("a name of dots only", "return require('...')", "INVALID_PATH"),
    Attempt("a module that climbs", "return require('lib.climbs')", "INVALID_PATH"),
    Attempt("many small files", "local fs = require('fs') for i = 1, 1e9 do fs.writeFileSync('many/' .. i, '') end", "QUOTA_EXCEEDED"),
    Attempt("a file that doubles", "local fs, s = require('fs'), 'x' while true do s = s .. s fs.writeFileSync('lib/double', s) end", "FILE_TOO_LARGE|QUOTA_EXCEEDED"),
    Attempt("a file of four gigabytes of holes", "return require('fs').readFileSync('holes', 'buffer')", "FILE_TOO_LARGE"),
    Attempt("write to a root that is read only", "require('fs').writeFileSync('@data/x', 'x')", "WRITE_NOT_ALLOWED"),
    Attempt("remove the worktree", "require('fs').rmSync('.', {recursive = true, force = true})", "INVALID_PATH"),
    Attempt("options of another function", "return require('exec').spawn('/bin/echo', {'a'}, {shell = true})", "INVALID_ARGUMENT"),
    Attempt("NUL in an argument", "return require('exec').run('/bin/echo', {'a\\0'})", "INVALID_ARGUMENT|ARGUMENTS_NOT_ALLOWED"),
    Attempt("the environment of a program", "local found = {} for n in require('exec').spawn('/usr/bin/env').stdout:gmatch('([%w_]+)=') do found[#found + 1] = n end table.sort(found) return table.concat(found, ',')", "LANG,PATH"),
    Attempt("a header of another line", "return require('http').fetchSync('http://here.test:<port>/open', {headers = {A = 'b\\r\\nHost: evil'}})", "INVALID_ARGUMENT"),
    Attempt("a header that is ours", "return require('http').fetch('http://here.test:<port>/open', {headers = {host = '127.0.0.1:<canary>'}})", "HEADER_NOT_ALLOWED"),
    Attempt("a method that is not granted", "return require('http').post('http://here.test:<port>/open', {a = 1})", "METHOD_NOT_ALLOWED"),
    Attempt("a base and a way up", "return require('http').request({baseURL = 'http://here.test:<port>/open', url = '/../closed'})", "URL_NOT_ALLOWED"),
    Attempt("past the glue: a send", "return alc.tool('http.send', {{url = 'http://127.0.0.1:<canary>/', method = 'POST'}})", "URL_NOT_ALLOWED"),
    Attempt("past the glue: a database outside", "return alc.call('database.query', {'sqlite3', '<out>/secret.db', '', ''}, 'SELECT * FROM t')", "INVALID_PATH"),
    Attempt("past the glue: a token", "return alc.call('database.exec', {'sqlite3', ':memory:', '0123456789abcdef', ''}, 'SELECT 1')", "DATABASE_LOST"),
    Attempt("past the glue: a statement without intent", "return alc.call('database.execHeld', {'sqlite3', 'shop.db', '', ''}, 'CREATE TABLE t(x)')", "INVALID_ARGUMENT"),
    Attempt("the words of the glue are replaced", "string.match = function() return 'insert' end local db = require('database') db.configure('sqlite3', 'shop.db') db.begin() local ok, e = pcall(db.exec, 'CREATE TABLE t(x)') db.rollback() return e.code", "INVALID_ARGUMENT"),
    Attempt("a namespace", "return require('state').namespace('../other')", "NAMESPACE_NOT_ALLOWED"),
    Attempt("past the glue: a namespace", "return alc.call('state.read', 'k', 'shared')", "NAMESPACE_NOT_ALLOWED"),
    Attempt("keys by a pattern", "local s = require('state') s.set('abc', 1) return #s.keys('%') + #s.keys('_') + #s.keys('a%c')", 0),
    Attempt("a key with NUL", "require('state').set('a\\0b', 1)", "INVALID_ARGUMENT"),
    Attempt("a state without end", "local s = require('state') for i = 1, 1e9 do s.set('k' .. i, 1) end", "STATE_TOO_LARGE"),
    Attempt("a variable that is not granted", "return require('env').get('HOSTILE_CANARY')", "VARIABLE_NOT_ALLOWED"),
    Attempt("all variables", "local names = {} for n in pairs(require('env').all()) do names[#names + 1] = n end return table.concat(names, ',')", "GREETING"),
    Attempt("bytes without end", "return require('random').bytes(1000000000)", "INVALID_ARGUMENT"),
]  # fmt: skip

_WEIRD = "{function() return nil end, function() return 0/0 end, function() return -1 end, function() return 1 << 62 end, function() return '' end, function() return 'a\\0b' end, function() return '\\255' end, function() return '../secret.txt' end, function() return {} end, function() return {{}} end, function() return {a = 1} end, function() return {[1.5] = 1} end, function() return print end, function() return alc.null end, function() return _G end, function() return setmetatable({}, {__index = error}) end}"
WEIRD = [
    Attempt(f"anything to {name}", f"local no = alc.array({{}}) for _, a in ipairs({_WEIRD}) do for _, b in ipairs({{a, function() return 'x' end}}) do local ok, e = pcall(alc.call, '{name}', a(), b()) if not ok and not (type(e) == 'table' and e.code) then no[#no + 1] = tostring(e) end end end return no", [])
    for name in ("fs.statSync", "fs.writeFileSync", "database.query", "database.execHeld", "http.readSync", "http.parse", "http.dump", "state.set", "state.incr", "state.replace", "env.get", "random.int", "crypto.hash")
]  # fmt: skip

ATTEMPTS = [*SHARED, *LANGUAGE, *BRIDGE, *METATABLES, *MODULES, *WEIRD]

NOTHING = [
    *[Attempt(f"require {name}", f"return require('{name}')", "MODULE_NOT_GRANTED") for name in ("fs", "exec", "database", "http", "state", "env", "holdfast:exec")],
    *[Attempt(f"call {name}", f"return alc.call('{name}', '/etc/passwd')", "HOST_FUNCTION_NOT_FOUND") for name in ("fs.readFileSync", "exec.run", "database.query", "http.readSync", "state.read")],
    *[Attempt(f"tool {name}", f"return alc.tool('{name}', {{'/bin/sh'}})", "paused") for name in ("exec.spawn", "http.send")],
]  # fmt: skip
