"""The same programs in each language, so that one suite can hold both guests to the same behaviour."""

from holdfast.sandbox import Language

PROGRAMS: dict[str, dict[Language, str]] = {
    "add": {"javascript": "20 + 22", "lua": "20 + 22"},
    "define": {"javascript": "function double(x) { return 2 * x }", "lua": "function double(x) return 2 * x end"},
    "set global": {"javascript": "var kept = 'here'", "lua": "kept = 'here'"},
    "get global": {"javascript": "kept", "lua": "kept"},
    "print": {"javascript": "console.log('one', 2); console.log('three')", "lua": "print('one', 2) print('three')"},
    "raise": {"javascript": "\nthrow new Error('broken')", "lua": "\nerror('broken')"},
    "syntax": {"javascript": "let = = 1", "lua": "local = = 1"},
    "ask once": {"javascript": "'got ' + await llm('question')", "lua": "return 'got ' .. alc.llm('question')"},
    "ask with options": {
        "javascript": "await llm('question', {temperature: 0.5, model: 'm'})",
        "lua": "return alc.llm('question', {temperature = 0.5, model = 'm'})",
    },
    "ask thrice": {
        "javascript": "let all = ''; for (let i = 1; i <= 3; i++) all += await llm('q' + i); all",
        "lua": "local all = '' for i = 1, 3 do all = all .. alc.llm('q' .. i) end return all",
    },
    "ask together": {
        "javascript": "(await Promise.all(['a', 'b', 'c'].map(p => llm(p)))).join('')",
        "lua": "return table.concat(alc.llm_batch({'a', 'b', 'c'}))",
    },
    "catch the answer": {
        "javascript": "try { await llm('q') } catch (e) { 'caught ' + e.code + ' ' + e.message }",
        "lua": "local ok, e = pcall(alc.llm, 'q') return 'caught ' .. e.code .. ' ' .. e.message",
    },
    "swallow everything": {
        "javascript": "let r; try { r = await llm('q') } catch { r = 'swallowed' } r",
        "lua": "local ok, r = pcall(function() return alc.llm('q') end) return ok and r or 'swallowed'",
    },
    "sleep": {"javascript": "await hf.sleep(1000); 'awake'", "lua": "alc.sleep(1000) return 'awake'"},
    "kinds": {
        "javascript": "[await ask('a?'), await approve('b?'), await hf.tool('t', {x: 1}), await hf.query('other', {y: 2})].join()",
        "lua": "return table.concat({alc.ask('a?'), alc.approve('b?'), alc.tool('t', {x = 1}), alc.query('other', {y = 2})}, ',')",
    },
    "call host": {"javascript": "hf.call('add', 1, 2)", "lua": "return alc.call('add', 1, 2)"},
    "call missing": {
        "javascript": "try { hf.call('nothing') } catch (e) { e.code }",
        "lua": "local ok, e = pcall(alc.call, 'nothing') return e.code",
    },
    "call host, uncaught": {"javascript": "hf.call('refuse')", "lua": "return alc.call('refuse')"},
    "echo": {"javascript": "function echo(x) { return x }", "lua": "function echo(x) return x end"},
    "ask and echo": {"javascript": "await llm('give')", "lua": "return alc.llm('give')"},
    "now": {"javascript": "Date.now()", "lua": "os.time() * 1000"},
    "local hour": {"javascript": "new Date(0).getHours()", "lua": "os.date('*t', 0).hour"},
    "random": {"javascript": "Math.random()", "lua": "math.random()"},
    "random after pause": {"javascript": "await llm('q'); Math.random()", "lua": "alc.llm('q') return math.random()"},
    "loop": {"javascript": "for (;;) {}", "lua": "while true do end"},
    "loop and catch": {
        "javascript": "for (;;) { try { for (;;) {} } catch {} }",
        "lua": "while true do pcall(function() while true do end end) end",
    },
    "print and loop": {"javascript": "console.log('before'); for (;;) {}", "lua": "print('before') while true do end"},
    "print for ever": {"javascript": "for (;;) console.log('x')", "lua": "while true do print('x') end"},
    "print much": {
        "javascript": "for (let i = 0; i < 100; i++) console.log('x'.repeat(1000))",
        "lua": "for i = 1, 100 do print(('x'):rep(1000)) end",
    },
    "print, caught": {
        "javascript": "for (;;) { try { console.log('x') } catch {} }",
        "lua": "while true do pcall(print, 'x') end",
    },
    "use memory": {
        "javascript": "const all = []; for (;;) all.push('x'.repeat(1 << 20) + all.length)",
        "lua": "local all = {} while true do all[#all + 1] = ('x'):rep(1 << 20) .. #all end",
    },
    "use memory, caught": {
        "javascript": "for (;;) { try { const all = []; for (;;) all.push(new Uint8Array(1 << 20)) } catch {} }",
        "lua": "while true do pcall(function() local all = {} while true do all[#all + 1] = ('x'):rep(1 << 20) .. #all end end) end",
    },
    "recurse": {
        "javascript": "(function down() { return 1 + down() })()",
        "lua": "local function down() return 1 + down() end return down()",
    },
    "recurse, caught": {
        "javascript": "for (;;) { try { (function down() { return 1 + down() })() } catch {} }",
        "lua": "while true do pcall(function() local function down() return 1 + down() end return down() end) end",
    },
    "ask for ever": {"javascript": "for (;;) await llm('q')", "lua": "while true do alc.llm('q') end"},
    "large value": {"javascript": "'x'.repeat(1e6)", "lua": "return ('x'):rep(1000000)"},
    "secret": {
        "javascript": "{ let s = 'sec' + 'ret-' + 'x'.repeat(40) + Math.PI; s = null }; 0",
        "lua": "do local s = 'sec' .. 'ret-' .. ('x'):rep(40) .. math.pi s = nil end collectgarbage() return 0",
    },
    "hold 40 MB and drop it": {
        "javascript": "globalThis.big = Array.from({length: 40}, () => new Uint8Array(1 << 20).fill(7)); big = null; 0",
        "lua": "big = {} for i = 1, 40 do big[i] = ('x'):rep(1 << 20) .. i end big = nil return 0",
    },
    "grow and ask": {
        "javascript": """
            const items = [];
            for (let i = 0; i < 6; i++) { items.push({i, r: Math.random(), t: Date.now()}); items[i].a = await llm('q' + i) }
            JSON.stringify(items)
        """,
        "lua": """
            local items = {}
            for i = 1, 6 do items[i] = {i = i, r = math.random(), t = os.time()} items[i].a = alc.llm('q' .. i) end
            local out = {}
            for i, item in ipairs(items) do out[i] = item.i .. item.r .. item.t .. item.a end
            return table.concat(out, ',')
        """,
    },
}
