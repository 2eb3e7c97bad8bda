"""Programs that run for ever, or nearly, in ways that a check between two statements never sees."""

from typing import Final

from holdfast.sandbox import Language

CORPUS: Final[dict[Language, list[str]]] = {
    "javascript": [
        "while (true) {}",
        "for (;;) { try { for (;;) {} } catch {} }",
        'new Array(1e9) + ""',
        '/(a+)+$/.test("a".repeat(40) + "b")',
        '/^(([a-z])+.)+[A-Z]([a-z])+$/.test("a".repeat(60))',
        "(function again() { return Promise.resolve().then(again) })(); await new Promise(() => {})",
        "queueMicrotask(function again() { queueMicrotask(again) })",
        'let s = "x"; for (;;) { s = s.length > 1e6 ? "x" : s + s; s.split("").sort().join("") }',
        "JSON.stringify(Array.from({length: 4e6}, (_, i) => i)).length; for (;;) JSON.parse('[' + '1,'.repeat(1e6) + '1]')",
        "[...Array(2e6).keys()].sort(() => Math.random() - 0.5); for (;;) Array(1e6).fill(1).sort()",
        "9n ** 9n ** 7n",
        '"a".repeat(1e7).replaceAll("a", "ab").indexOf("c"); for (;;) "a".repeat(1e7).lastIndexOf("b")',
        "new Proxy({}, {get() { for (;;) {} }}).x",
        "({ get x() { for (;;) {} } }).x",
        "console.log({ get x() { for (;;) {} }, [Symbol.toPrimitive]() { for (;;) {} } }); for (;;) {}",
        "({ toJSON() { for (;;) {} } })",
        "function* g() { for (;;) yield 1 } new Set(g()).size",
        "for await (const x of (async function* () { for (;;) yield 1 })()) {}",
    ],
    "lua": [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "repeat until false",
        "for i = 1, math.huge do local t = {i} end",
        '("x"):rep(1e7):find(("a*"):rep(30) .. "b"); while true do end',
        'string.find(("a"):rep(60), ("a?"):rep(30) .. ("a"):rep(70) .. "b"); while true do end',
        '(("a"):rep(1e6)):find((".-"):rep(8) .. "b")',
        "local t = {} for i = 1, 2e6 do t[i] = i end while true do table.concat(t, ',') end",
        "local t = {} for i = 1, 1e6 do t[i] = i % 7 end while true do table.sort(t, function(a, b) return a > b end) end",
        "local t = setmetatable({}, {__index = function(t, k) while true do end end}) return t.x",
        "local co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end",
        "while true do xpcall(error, function() while true do end end) end",
        'while true do ("x"):rep(1e6):gsub("x", "yy") end',
        'while true do load("return " .. ("1 + "):rep(1e4) .. "1") end',
        "goto start ::start:: goto start",
        "local s = '' while true do s = (s .. 'x'):sub(-1000) end",
        "return setmetatable({}, {__tostring = function() while true do end end})",
    ],
}
