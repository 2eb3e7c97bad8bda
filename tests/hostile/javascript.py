"""Attempts in JavaScript: on the bridge, on the glue, on the language, and by what other modules are given."""

from tests.hostile import shared
from tests.hostile.attempts import Attempt
from tests.hostile.attempts import javascript_text as text

_CODE = "const code = async (f) => { try { await f(); return 'got through' } catch (e) { return e.code ?? e.name } };"
_EACH = f"{_CODE} const each = async (fs) => [...new Set(await Promise.all(fs.map(code)))].sort().join();"
_VERBS = (
    "[() => fs.readFileSync(p), () => fs.readdirSync(p), () => fs.statSync(p), () => fs.existsSync(p), () => fs.writeFileSync(p, 'x'),"
    " () => fs.mkdirSync(p, {recursive: true}), () => fs.rmSync(p, {recursive: true, force: true}), () => fs.renameSync(p, 'taken'),"
    " () => fs.renameSync('note.txt', p), () => fs.readFileSync(p, 'buffer')]"
)
_MEMORY = "const db = require('database'); db.configure('sqlite3', ':memory:');"
_POSTGRESQL = "const db = require('database'); db.configure('postgresql', 'main');"

SHARED = [
    *[Attempt(f"every verb: {p[:40]}", f"{_EACH} const fs = require('fs'), p = {text(p)}; await each({_VERBS})", "INVALID_PATH") for p in shared.EVERY_VERB],
    *[Attempt(f"read: {p[:40]}", f"require('fs').readFileSync({text(p)})", ends) for p, ends in shared.READ_ONLY],
    *[Attempt(f"require: {s[:40]}", f"require({text(s)})", ends) for s, ends in shared.SPECIFIERS],
    *[Attempt(f"import: {s[:40]}", f"await import({text(s)})", ends) for s, ends in shared.SPECIFIERS],
    *[Attempt(f"fetch: {u[:60]}", f"await require('http').fetch({text(u)})", ends) for u, ends in shared.URLS],
    *[Attempt(f"sqlite: {s[:60]}", f"{_MEMORY} db.exec({text(s)})", ends) for s, ends in shared.SQLITE],
    *[Attempt(f"postgresql: {s[:60]}", f"{_POSTGRESQL} db.query({text(s)})", ends) for s, ends in shared.POSTGRESQL],
    *[Attempt(f"configure: {a[:40]}", f"require('database').configure({text(d)}, {text(a)})", ends) for d, a, ends in shared.DATABASES],
    *[Attempt(f"spawn: {p[:40]}", f"await require('exec').spawn({text(p)}, ['a'])", "PROGRAM_NOT_ALLOWED") for p in shared.PROGRAMS],
    Attempt("arguments", f"{_EACH} await each({shared.ARGUMENTS!r}.map(a => () => require('exec').spawnSync('/bin/echo', a)))", "ARGUMENTS_NOT_ALLOWED"),
    Attempt("variables", f"{_EACH} await each({shared.VARIABLES!r}.map(n => () => require('exec').run('/bin/echo', ['a'], {{env: {{[n]: 'x'}}}})))", "VARIABLE_NOT_ALLOWED"),
    *[Attempt(f"cwd: {f}", f"require('exec').run('/bin/echo', ['a'], {{cwd: {text(f)}}})", "INVALID_PATH") for f in shared.FOLDERS],
]  # fmt: skip

LANGUAGE = [
    Attempt("constructor.constructor", "''.constructor.constructor('return typeof process + typeof __holdfast + typeof Deno')()", "undefinedundefinedundefined"),
    Attempt("function of a host function", "require('fs').readFileSync.constructor('return typeof process')()", "undefined"),
    Attempt("async function constructor", "await (async () => {}).constructor('return typeof process')()", "undefined"),
    Attempt("generator constructor", "(function* () {}).constructor('yield typeof process')().next().value", "undefined"),
    Attempt("globals of other hosts", "['process', 'Deno', 'Bun', 'std', 'os', 'bjson', 'print', 'scriptArgs', 'load', 'WebAssembly', 'Worker', 'XMLHttpRequest', 'fetch', 'importScripts', '__loadScript', 'gc'].filter(n => n in globalThis).join()", ""),
    Attempt("module of the engine: std", "await import('std')", "MODULE_NOT_FOUND"),
    Attempt("module of the engine: os", "await import('qjs:os')", "INVALID_PATH|MODULE_NOT_FOUND"),
    Attempt("arguments.callee.caller", "(function f() { return String(f.caller) })()", "TypeError|undefined|null"),
    Attempt("Error.prepareStackTrace", "Error.prepareStackTrace = (e, frames) => frames; let s; try { null.x } catch (e) { s = e.stack } [].concat(s).some(f => f && f.getThis && f.getThis() !== undefined && f.getThis() !== globalThis)", False),
    Attempt("stack names no file of the host", "try { require('fs').readFileSync('../x') } catch (e) { /\\.py|\\/usr|\\/home|\\/tmp/.test(e.stack) }", False),
    Attempt("realm by Reflect.construct", "Reflect.construct(Function, ['return typeof require(\"exec\").fork'])()", "undefined"),
    Attempt("import.meta of a module file", "typeof (await import('./meta.mjs')).default", "undefined"),
    Attempt("bytecode by structuredClone", "structuredClone(() => 1)", "25"),
    Attempt("memory", "const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))", "LIMIT_EXCEEDED|InternalError|RangeError"),
    Attempt("stack", "const f = () => f() + 1; f()", "RangeError|InternalError|LIMIT_EXCEEDED"),
]  # fmt: skip

BRIDGE = [
    Attempt("a function that is not granted", "hf.call('exec.fork', '/bin/sh')", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("a Python name", "hf.call('fs.__class__')", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("a Python method", "hf.call('fs._walk', '/etc/passwd', 'x')", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("close of a module", "hf.call('fs.close')", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("a path as a name", "hf.call('../exec.run')", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("a name with NUL", "hf.call('exec.run\\0', '/bin/sh')", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("a very long name", "hf.call('x'.repeat(100000))", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("a name with quotes", "hf.call('fs.readFileSync\",[\"/etc/passwd\"]]')", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("half a surrogate as a name", "hf.call('\\ud800')", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("a name that changes", "hf.call({toString: () => 'exec.run'}, '/bin/sh')", "TypeError"),
    Attempt("an object of String", "hf.call(new String('exec.run'), '/bin/sh')", "TypeError"),
    Attempt("a waiting function within a step", "hf.call('exec.spawn', '/bin/sh')", "HOST_FUNCTION_NOT_FOUND"),
    Attempt("a function of a step as a tool", "await hf.tool('exec.run', ['/bin/sh', ['-c', 'id']])", "paused"),
    Attempt("a tool that is not granted", "await hf.tool('shell', ['id'])", "paused"),
    Attempt("a tool by query", "await hf.query('tool', {name: 'exec.spawn', args: ['/bin/sh', ['-c', 'id']]})", "PROGRAM_NOT_ALLOWED"),
    Attempt("a tool whose options name another", "await hf.tool('exec.none', [], {name: 'exec.spawn', args: ['/bin/sh']})", "paused"),
    Attempt("a tool with a default answer", "await hf.tool('exec.spawn', ['/bin/sh'], {default: {code: 0}})", "PROGRAM_NOT_ALLOWED"),
    Attempt("a tool without a name", "await hf.query('tool', {args: ['/bin/sh']})", "VALIDATION_ERROR"),
    Attempt("a tool whose name is a list", "await hf.query('tool', {name: ['exec.spawn']})", "VALIDATION_ERROR"),
    Attempt("a payload that is no object", "await hf.query('tool', 'exec.spawn')", "VALIDATION_ERROR"),
    Attempt("a kind of query of one's own", "await hf.query('exec', {cmd: '/bin/sh'})", "VALIDATION_ERROR"),
    Attempt("arguments that are no list", "await hf.tool('exec.spawn', {cmd: '/bin/sh'})", "INVALID_ARGUMENT"),
    Attempt("an answer to oneself", "const p = hf.tool('shell', []); p.resolve?.(1); Promise.resolve.call(p, 1)", "TypeError"),
    Attempt("hf is replaced before a module is loaded", "globalThis.hf = {call: () => 'forged', tool: () => 'forged'}; require('exec').run('/bin/sh')", "PROGRAM_NOT_ALLOWED|forged"),
    Attempt("hf cannot be changed", "'use strict'; hf.call = () => 1", "TypeError"),
    Attempt("a host function cannot be changed", "'use strict'; require('fs').readFileSync = () => 1", "TypeError"),
    Attempt("tags of the bridge, bytes", "require('fs').readFileSync({$: 'bytes', v: 'Li4vc2VjcmV0LnR4dA=='})", "INVALID_ARGUMENT"),
    Attempt("tags of the bridge, opaque", "hf.call('fs.readFileSync', {$: 'opaque', type: 'x', v: '../secret.txt'})", "INVALID_ARGUMENT"),
    Attempt("a value that contains itself", "const o = {}; o.o = o; hf.call('state.set', 'k', o)", "INVALID_ARGUMENT"),
    Attempt("a value that is very deep", "let a = []; for (let i = 0; i < 5000; i++) a = [a]; hf.call('state.set', 'k', a)", "INVALID_ARGUMENT|VALUE_REFUSED"),
    Attempt("a request that is too large", "hf.call('fs.readFileSync', 'x'.repeat(17 << 20))", "REQUEST_TOO_LARGE"),
    Attempt("calls without end", "for (;;) require('clock').now()", "CALLS_EXCEEDED"),
]  # fmt: skip

PROTOTYPES = [
    Attempt("a getter that changes its mind", "let n = 0; require('fs').writeFileSync('lib/x', 'x', {get encoding() { return n++ ? '../../etc' : 'utf8' }}); n", 1),
    Attempt("a path that is an object", "require('fs').readFileSync({toString: () => '../secret.txt', valueOf: () => 'note.txt'})", "INVALID_ARGUMENT"),
    Attempt("Symbol.toPrimitive", "require('fs').readFileSync({[Symbol.toPrimitive]: () => 'note.txt'})", "INVALID_ARGUMENT"),
    Attempt("toJSON", "require('fs').readFileSync({toJSON: () => '../secret.txt'})", "INVALID_PATH"),
    Attempt("a proxy as a path", "require('fs').readFileSync(new Proxy(['../secret.txt'], {get: () => '../secret.txt'}))", "INVALID_ARGUMENT"),
    Attempt("a proxy as arguments", "require('exec').run('/bin/echo', new Proxy([], {get: (t, k) => k === 'length' ? 2 : '-n'}))", "INVALID_ARGUMENT|ARGUMENTS_NOT_ALLOWED"),
    Attempt("a proxy as options", "require('exec').run('/bin/echo', ['a'], new Proxy({}, {ownKeys: () => ['cwd'], getOwnPropertyDescriptor: () => ({value: '..', enumerable: true, configurable: true}), get: () => '..'}))", "INVALID_PATH|INVALID_ARGUMENT"),
    Attempt("a proxy that throws", "require('fs').rmSync('note.txt', new Proxy({}, {ownKeys() { throw new RangeError('x') }}))", "RangeError|INVALID_ARGUMENT|FILE_NOT_FOUND"),
    Attempt("a getter that calls the host", "const fs = require('fs'); fs.readFileSync('note.txt', {get encoding() { fs.readFileSync('../secret.txt') }})", "INVALID_ARGUMENT"),
    Attempt("__proto__ in options", "require('fs').rmSync('lib', JSON.parse('{\"__proto__\": {\"recursive\": true, \"force\": true}}'))", "INVALID_ARGUMENT"),
    Attempt("inherited options", "require('fs').rmSync('lib', Object.create({recursive: true, force: true}))", "IS_FOLDER"),
    Attempt("options of Object.prototype", "Object.prototype.recursive = true; require('fs').rmSync('lib', {})", "IS_FOLDER"),
    Attempt("a setter of Object.prototype", "const seen = []; for (const k of ['value', 'found', 'mark', 'code', 'message', 'kind', 'source', 'name', 'args', 'exports', 'stdout', 'status']) Object.defineProperty(Object.prototype, k, {__proto__: null, set(v) { seen.push(k) }, get() { return 'forged' }, configurable: true}); require('state').set('k', 1); const got = require('state').get('k'); try { require('fs').readFileSync('../x') } catch (e) { [got, e.code, seen.length] }", [1, "INVALID_PATH", 0]),
    Attempt("Array.prototype is replaced", "Array.prototype[Symbol.iterator] = function* () { yield 'fork'; yield '__class__' }; Array.prototype.push = () => 0; await require('exec').fork('/bin/sh')", "paused"),
    Attempt("an index setter of Array.prototype", "Object.defineProperty(Array.prototype, '0', {set() { throw new RangeError('x') }, get: () => '../secret.txt'}); require('fs').readdirSync('lib').length > 0", True),
    Attempt("JSON is replaced", "JSON.stringify = () => '\"forged\"'; JSON.parse = () => ({code: 0}); require('exec').run('/bin/sh')", "PROGRAM_NOT_ALLOWED"),
    Attempt("Promise is replaced", "globalThis.Promise = class { constructor(f) { f(() => {}, () => {}) } static resolve() { return 1 } then(f) { f({code: 0}) } }; await require('exec').spawn('/bin/sh')", "PROGRAM_NOT_ALLOWED"),
    Attempt("then is replaced", "const then = Promise.prototype.then; Promise.prototype.then = function (f, r) { return then.call(this, () => f({forged: true}), r) }; await require('exec').spawn('/bin/sh')", "PROGRAM_NOT_ALLOWED"),
    Attempt("a thenable as an argument", "await hf.tool('exec.spawn', [{then: (f) => f('/bin/sh')}])", "INVALID_ARGUMENT"),
    Attempt("String.prototype is replaced", "String.prototype.toUpperCase = () => 'GET'; (await require('http').fetch('http://here.test:<port>/open', {method: 'POST'})).status", 200),
    Attempt("Set.prototype.has says yes", "Set.prototype.has = () => true; await require('http').fetch('http://here.test:<port>/open', {method: 'POST', body: 'x'})", "INVALID_ARGUMENT"),
    Attempt("the regular expression of the glue", "RegExp.prototype.test = () => true; RegExp.prototype.exec = () => null; const db = require('database'); db.configure('sqlite3', 'shop.db'); db.begin(); try { db.exec('CREATE TABLE t(x)'); 'got through' } finally { db.rollback() }", "INVALID_ARGUMENT"),
    Attempt("Object.freeze does nothing", "Object.freeze = (o) => o; hf.call('exec.run', '/bin/sh')", "PROGRAM_NOT_ALLOWED"),
    Attempt("Error is replaced", "globalThis.Error = class { constructor() { return {code: 'ok'} } }; require('fs').readFileSync('../secret.txt')", "INVALID_PATH"),
    Attempt("Error.prototype has a code", "Object.defineProperty(Error.prototype, 'code', {get: () => 'forged', set() {}, configurable: true}); require('fs').readFileSync('../secret.txt')", "INVALID_PATH"),
    Attempt("exports of a native module are another's", "module = require('clock'); try { module.now = () => 1 } catch {} typeof require('clock').now() === 'number' && require('clock').now() > 1", True),
    Attempt("the cache of require", "typeof require.cache + typeof require.resolve + typeof require.main", "undefinedundefinedundefined"),
    Attempt("array holes and extra properties", "require('exec').run('/bin/echo', Object.assign(['a', , 'b'], {shell: true}))", "INVALID_ARGUMENT"),
    Attempt("a typed array as arguments", "require('exec').run('/bin/echo', new Uint8Array([1]))", "INVALID_ARGUMENT"),
    Attempt("a Map as options", "require('exec').run('/bin/echo', ['a'], new Map([['cwd', '..']]))", "INVALID_ARGUMENT"),
    Attempt("a date with a toJSON", "const d = new Date(); d.toJSON = () => '../secret.txt'; require('fs').readFileSync(d)", "INVALID_ARGUMENT"),
    Attempt("a function as a value of the state", "require('state').set('k', {f() {}})", "INVALID_ARGUMENT"),
    Attempt("half a surrogate in a path", "require('fs').readFileSync('\\ud800/../../secret.txt')", "INVALID_ARGUMENT|INVALID_PATH"),
]  # fmt: skip

MODULES = [
    Attempt("a file with the name of a native module", "require('fs').stolen", None),
    Attempt("a folder with the name of a native module", "require('exec').stolen", None),
    Attempt("a file called holdfast:fs", "require('holdfast:fs').stolen", None),
    Attempt("NUL in the name of a module", f"{_CODE} await code(() => require('./secret\\0.json'))", "INVALID_PATH"),
    Attempt("NUL in a name that is imported", "await import('./../secret\\0.mjs')", "INVALID_PATH"),
    Attempt("a native module with an extension", "require('exec.js').stolen", "yes, a file of the worktree"),
    Attempt("a native name in capitals", "require('EXEC')", "MODULE_NOT_FOUND"),
    Attempt("a referrer that lies", "(0, eval)('require(\"../secret\")\\n//# sourceURL=<out>/x.js')", "INVALID_PATH"),
    Attempt("a module that climbs", "require('./lib/climbs.js')", "INVALID_PATH"),
    Attempt("a module of a folder that is a link", "require('./lib/up/tree/meta.mjs')", "INVALID_PATH|TypeError"),
    Attempt("write a module outside", "const fs = require('fs'); fs.writeFileSync('lib/../../new.js', '')", "INVALID_PATH"),
    Attempt("a zip of one file: many small ones", "const fs = require('fs'); for (let i = 0; ; i++) fs.writeFileSync('many/' + i, '')", "QUOTA_EXCEEDED"),
    Attempt("one large file", "require('fs').writeFileSync('lib/large', 'x'.repeat(3 << 20))", "FILE_TOO_LARGE|QUOTA_EXCEEDED"),
    Attempt("a file that doubles", "const fs = require('fs'); let s = 'x'; for (;;) { s += s; fs.writeFileSync('lib/double', s) }", "FILE_TOO_LARGE|QUOTA_EXCEEDED"),
    Attempt("folders without end", "const fs = require('fs'); for (let p = 'many'; ; p += '/d') fs.mkdirSync(p, {recursive: true})", "QUOTA_EXCEEDED|INVALID_PATH"),
    Attempt("a file of four gigabytes of holes", "require('fs').readFileSync('holes')", "FILE_TOO_LARGE"),
    Attempt("write to a root that is read only", "require('fs').writeFileSync('@data/x', 'x')", "WRITE_NOT_ALLOWED"),
    Attempt("rename into another root", "require('fs').renameSync('note.txt', '@data/note.txt')", "WRITE_NOT_ALLOWED|DIFFERENT_ROOTS"),
    Attempt("remove the worktree", "require('fs').rmSync('.', {recursive: true, force: true})", "INVALID_PATH"),
    Attempt("rename a link, then read it", "const fs = require('fs'); fs.renameSync('spare', 'spare2'); fs.readFileSync('spare2')", "INVALID_PATH"),
    Attempt("options of another function", "require('exec').run('/bin/echo', ['a'], {shell: true, stdio: 'inherit', uid: 0})", "INVALID_ARGUMENT"),
    Attempt("NUL in an argument", "require('exec').run('/bin/echo', ['a\\0--version'])", "INVALID_ARGUMENT|ARGUMENTS_NOT_ALLOWED"),
    Attempt("many arguments", "require('exec').run('/bin/echo', Array(2000).fill('a'))", "INVALID_ARGUMENT"),
    Attempt("an argument that is an object", "require('exec').run('/bin/echo', [{toString: () => '-n'}])", "INVALID_ARGUMENT"),
    Attempt("the environment of a program", "Object.keys(Object.fromEntries(require('exec').run('/usr/bin/env').trim().split('\\n').map(l => l.split('=')))).sort().join()", "LANG,PATH"),
    Attempt("the descriptors of a program", "require('exec').run('/bin/ls', ['/proc/self/fd']).trim().split('\\n').join()", "0,1,2,3"),
    Attempt("a header of another line", "await require('http').fetch('http://here.test:<port>/open', {headers: {A: 'b\\r\\nHost: evil'}})", "INVALID_ARGUMENT"),
    Attempt("a header that is ours", "await require('http').fetch('http://here.test:<port>/open', {headers: {Host: '127.0.0.1:<canary>'}})", "HEADER_NOT_ALLOWED"),
    Attempt("another method by a header", "await require('http').fetch('http://here.test:<port>/open', {headers: {'X-HTTP-Method-Override': 'DELETE'}})", "HEADER_NOT_ALLOWED"),
    Attempt("transfer-encoding", "await require('http').fetch('http://here.test:<port>/open', {headers: [['Transfer-Encoding', 'chunked']]})", "HEADER_NOT_ALLOWED"),
    Attempt("a method with a second request in it", "await require('http').fetch('http://here.test:<port>/open', {method: 'GET /closed HTTP/1.1\\r\\n\\r\\n'})", "METHOD_NOT_ALLOWED"),
    Attempt("a method that is not granted", "await require('http').post('http://here.test:<port>/open', {a: 1})", "METHOD_NOT_ALLOWED"),
    Attempt("CONNECT", "await require('http').fetch('http://here.test:<port>/open', {method: 'CONNECT'})", "METHOD_NOT_ALLOWED"),
    Attempt("a base that is left", "await require('http').request({baseURL: 'http://here.test:<port>/open', url: '//127.0.0.1:<canary>/'})", "INVALID_URL"),
    Attempt("a base and a way up", "await require('http').request({baseURL: 'http://here.test:<port>/open', url: '/../closed'})", "URL_NOT_ALLOWED"),
    Attempt("axios options for a socket", "(await require('http').request({url: 'http://here.test:<canary>/open', socketPath: '/var/run/docker.sock', proxy: {host: '127.0.0.1', port: <canary>}}))", "URL_NOT_ALLOWED"),
    Attempt("past the glue: a read that changes", "hf.call('http.readSync', {url: 'http://here.test:<port>/open', method: 'PoSt'})", "INVALID_ARGUMENT"),
    Attempt("past the glue: a send", "await hf.tool('http.send', [{url: 'http://127.0.0.1:<canary>/', method: 'POST'}])", "URL_NOT_ALLOWED"),
    Attempt("past the glue: an address", "hf.call('http.sendSync', {url: 'http://here.test:<port>/open', address: '127.0.0.1'})", "INVALID_ARGUMENT"),
    Attempt("past the glue: three in a header", "hf.call('http.readSync', {url: 'http://here.test:<port>/open', headers: [['a', 'b', 'c']]})", "INVALID_ARGUMENT"),
    Attempt("past the glue: a database outside", "hf.call('database.query', ['sqlite3', '<out>/secret.db', '', ''], 'SELECT * FROM t')", "INVALID_PATH"),
    Attempt("past the glue: a database that was not opened", "hf.call('database.query', ['sqlite3', '../secret.db', '', ''], 'SELECT * FROM t')", "INVALID_PATH"),
    Attempt("past the glue: an address", "hf.call('database.query', ['postgresql', 'postgresql://127.0.0.1:<canary>/x', '', ''], 'SELECT 1')", "CONNECTION_NOT_GRANTED"),
    Attempt("past the glue: a token", "hf.call('database.query', ['sqlite3', ':memory:', '0123456789abcdef', ''], 'SELECT 1')", "DATABASE_LOST"),
    Attempt("past the glue: a statement without intent", "hf.call('database.execHeld', ['sqlite3', 'shop.db', '', ''], 'CREATE TABLE t(x)')", "INVALID_ARGUMENT"),
    Attempt("past the glue: a transaction that is none", "hf.call('database.execHeld', ['sqlite3', 'shop.db', '', 'x'], 'INSERT INTO t VALUES (1)')", "TRANSACTION_LOST"),
    Attempt("a query that changes something", f"{_MEMORY} db.query('CREATE TABLE t(x)')", "SQL_NOT_ALLOWED"),
    Attempt("SQL in an argument", f"{_MEMORY} db.query('SELECT ? AS x', \"'; ATTACH '<out>/secret.db' AS o; --\")[0].x.startsWith(\"'; ATTACH\")", True),
    Attempt("a database that grows", f"{_MEMORY} db.exec('CREATE TABLE t(x)'); db.exec('INSERT INTO t SELECT randomblob(1000000) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100) SELECT i FROM n)')", "SQL_ERROR|SQL_TIMEOUT"),
    Attempt("a namespace", "require('state').namespace('../other')", "NAMESPACE_NOT_ALLOWED"),
    Attempt("past the glue: a namespace", "hf.call('state.read', 'k', 'shared')", "NAMESPACE_NOT_ALLOWED"),
    Attempt("past the glue: a namespace that is empty", "hf.call('state.keys', '', '')", "NAMESPACE_NOT_ALLOWED"),
    Attempt("past the glue: a namespace that is a list", "hf.call('state.set', 'k', 1, null, ['session'])", "INVALID_ARGUMENT"),
    Attempt("keys by a pattern", "const s = require('state'); s.set('abc', 1); [s.keys('%'), s.keys('_'), s.keys('*'), s.keys('a%c')].flat()", []),
    Attempt("a key with a slash is a key", "const s = require('state'); s.set('../x', 1); s.keys().join()", "../x"),
    Attempt("a key with NUL", "require('state').set('a\\0b', 1)", "INVALID_ARGUMENT"),
    Attempt("a state without end", "const s = require('state'); for (let i = 0; ; i++) s.set('k' + i, 1)", "STATE_TOO_LARGE"),
    Attempt("a value without end", "require('state').set('k', 'x'.repeat(100000))", "STATE_TOO_LARGE"),
    Attempt("a variable that is not granted", "require('env').get('HOSTILE_CANARY')", "VARIABLE_NOT_ALLOWED"),
    Attempt("a variable of the daemon", "require('env').get('HOLDFAST_TOKEN')", "VARIABLE_NOT_ALLOWED"),
    Attempt("a variable of an object", "require('env').get('__proto__')", "VARIABLE_NOT_ALLOWED"),
    Attempt("all variables", "Object.keys(require('env').all()).join()", "GREETING"),
    Attempt("bytes without end", "require('random').bytes(1e9)", "INVALID_ARGUMENT"),
    Attempt("a hash that is a module", "require('crypto').hash('__import__', 'x')", "INVALID_ARGUMENT"),
]  # fmt: skip

_WEIRD = "[undefined, null, NaN, -1, 2 ** 60, 12n, '', 'a\\0b', '\\ud800', '../secret.txt', [], [[]], {}, {a: 1}, new Map([[1, 2]]), Symbol('x'), () => 1, new Uint8Array(3), globalThis, new Proxy([], {}), {$: 'bytes', v: '!'}]"
WEIRD = [
    Attempt(f"anything to {name}", f"{_EACH} const no = []; for (const a of {_WEIRD}) for (const b of [[], [a], ['x']]) try {{ hf.call('{name}', a, ...b) }} catch (e) {{ if (!e.code) no.push(String(e)) }} no", [])
    for name in (
        "fs.readFileSync", "fs.writeFileSync", "database.configure", "database.query", "database.execHeld", "database.rollback", "http.readSync", "http.unpack", "http.parse",
        "http.dump", "state.set", "state.incr", "state.compare_and_set", "state.replace", "state.keys", "env.get", "random.int", "crypto.hash", "crypto.hmac",
    )
]  # fmt: skip

ATTEMPTS = [*SHARED, *LANGUAGE, *BRIDGE, *PROTOTYPES, *MODULES, *WEIRD]

NOTHING = [
    *[Attempt(f"require {name}", f"require('{name}')", "MODULE_NOT_GRANTED") for name in ("fs", "exec", "database", "http", "state", "env", "clock", "holdfast:exec")],
    *[Attempt(f"import {name}", f"await import('{name}')", "MODULE_NOT_GRANTED") for name in ("fs", "holdfast:http", "holdfast:database")],
    *[Attempt(f"call {name}", f"hf.call('{name}', '/etc/passwd')", "HOST_FUNCTION_NOT_FOUND") for name in ("fs.readFileSync", "exec.run", "database.query", "http.readSync", "state.read", "env.all")],
    *[Attempt(f"tool {name}", f"await hf.tool('{name}', ['/bin/sh'])", "paused") for name in ("exec.spawn", "http.send")],
    Attempt("what is there", "Object.keys(hf).sort().join()", "approve,ask,budgetCheck,budgetRemaining,cache,cacheClear,cacheInfo,call,card,chunk,eval,exit,filter,fingerprint,fork,ground,jsonDecode,jsonEncode,jsonExtract,llm,llmBatch,llmJson,llmSafe,log,map,matchBool,matchEnum,math,parallel,parseNumber,parseScore,pipe,progress,query,reduce,sleep,specify,state,stats,time,tool,tuning,vote"),
]  # fmt: skip
