"""`env`, `clock`, `random` and `crypto` in sessions that really run, in both languages."""

import hashlib
import hmac
import time
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.capabilities.env import Env
from holdfast.domain import InvalidValue
from tests.acceptance.scenes import opened, scene, value

NAMES = ("env", "clock", "random", "crypto")
ENV = {"names": ["HF_TEST_ONE", "HF_TEST_NONE", "HF_TEST_RAW"], "values": {"MODE": "test", "EMPTY": ""}}
SHA = hashlib.sha256("é".encode()).hexdigest()
MAC = hmac.digest(b"k", b"d", "sha512").hex()
SAFE = (1 << 53) - 1

JAVASCRIPT: list[tuple[str, Any]] = [
    ("[env.get('HF_TEST_ONE'), env.get('MODE'), env.get('EMPTY'), env.get('HF_TEST_NONE'), env.get('HF_TEST_NONE', 'x')]", ["one", "test", "", None, "x"]),
    ("env.all()", {"HF_TEST_ONE": "one", "HF_TEST_RAW": "a\ufffd", "MODE": "test", "EMPTY": ""}),
    ("['PATH', 'HF_TEST_SECRET', 'HOLDFAST_TOKEN', 'hf_test_one', '', '__proto__', 'constructor'].map(n => code(() => env.get(n)))", ["VARIABLE_NOT_ALLOWED"] * 7),
    ("[code(() => env.get()), code(() => env.get(1)), code(() => env.all(1))]", ["INVALID_ARGUMENT"] * 3),
    ("const a = clock.now(), b = clock.monotonic(); for (let i = 0; i < 50; i++) clock.now(); [Number.isInteger(a), clock.now() >= a, clock.monotonic() > b]", [True, True, True]),
    ("const at = clock.iso(); [/^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$/.test(at), Math.abs(Date.parse(at) - clock.now()) < 60000]", [True, True]),
    ("[random.bytes(16) instanceof Uint8Array, random.bytes(0).length, random.bytes(65536).length, String(random.bytes(16)) === String(random.bytes(16))]", [True, 0, 65536, False]),
    ("const seen = new Set(); for (let i = 0; i < 200; i++) seen.add(random.int(-1, 1)); [...seen].sort()", [-1, 0, 1]),
    (f"[random.int(5, 5), Number.isSafeInteger(random.int(-{SAFE}, {SAFE}))]", [5, True]),
    ("const f = random.float(); [f >= 0 && f < 1, f === random.float()]", [True, False]),
    ("[random.uuid(), crypto.uuid()].map(u => /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(u))", [True, True]),
    ("[() => random.int(2, 1), () => random.int(0.5, 1), () => random.bytes(-1), () => random.bytes(65537), () => crypto.randomBytes(1e9), () => random.int(0, 2 ** 60)].map(code)", ["INVALID_ARGUMENT"] * 6),
    ("[crypto.hash('sha256', 'é'), crypto.hash('SHA-256', new TextEncoder().encode('é')), crypto.hmac('sha512', 'k', 'd')]", [SHA, SHA, MAC]),
    ("[crypto.hash('md5', '', 'base64'), crypto.hash('sha1', '', 'base64url'), crypto.hash('sha3_512', '', 'bytes').length]", ["1B2M2Y8AsgTpgAmY7PhCfg==", "2jmj7l5rSw0yVb_vlWAYkK_YBwk", 64]),
    ("[crypto.timingSafeEqual('a', 'a'), crypto.timingSafeEqual('a', 'b'), crypto.timingSafeEqual('a', 'ab'), crypto.randomBytes(8).length]", [True, False, False, 8]),
    ("[() => crypto.hash('crc32', ''), () => crypto.hash('shake_128', ''), () => crypto.hash('sha256', '', 'latin1'), () => crypto.hash('sha256', 1), () => crypto.hmac('sha256', 'k')].map(code)", ["INVALID_ARGUMENT"] * 5),
]  # fmt: skip
LUA: list[tuple[str, Any]] = [
    ("return {env.get('HF_TEST_ONE'), env.get('MODE'), env.get('HF_TEST_NONE', 'x')}", ["one", "test", "x"]),
    ("return {code(env.get, 'PATH'), code(env.get, 'HOLDFAST_TOKEN'), code(env.get)}", ["VARIABLE_NOT_ALLOWED", "VARIABLE_NOT_ALLOWED", "INVALID_ARGUMENT"]),
    ("local a = clock.now() return {math.type(a), clock.now() >= a, clock.monotonic() > 0, #clock.iso()}", ["integer", True, True, 24]),
    ("return {#random.bytes(16), random.int(3, 3), random.float() < 1, #random.uuid(), code(random.int, 2, 1)}", [16, 3, True, 36, "INVALID_ARGUMENT"]),
    ("return {crypto.hash('sha256', 'é'), crypto.hmac('sha512', 'k', 'd'), #crypto.hash('sha256', '\\255', 'bytes'), #crypto.uuid()}", [SHA, MAC, 32, 36]),
    ("return {crypto.timingSafeEqual('\\255', '\\255'), #crypto.randomBytes(8), code(crypto.hash, 'x', '')}", [True, 8, "INVALID_ARGUMENT"]),
]  # fmt: skip


async def _session(hf: Holdfast, language: str) -> Any:
    await hf.templates.create(language, language=language)  # type: ignore[arg-type]
    for name in NAMES:
        await hf.templates.add_capability(language, "module", name, enabled=True, config=ENV if name == "env" else {})
    return (await hf.sessions.create(language)).id


@scene
async def test_the_small_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TEST_ONE", "one")
    monkeypatch.setenv("HF_TEST_RAW", "a\udcff")
    monkeypatch.setenv("HF_TEST_SECRET", "secret")
    monkeypatch.setenv("HOLDFAST_TOKEN", "secret")
    monkeypatch.delenv("HF_TEST_NONE", raising=False)
    begin = {
        "javascript": "; ".join(f"var {name} = require('{name}')" for name in NAMES)
        + "; function code(f) { try { return f() } catch (e) { return e.code } }",
        "lua": " ".join(f"{name} = require('{name}')" for name in NAMES)
        + " function code(f, ...) local ok, e = pcall(f, ...) return ok or e.code end",
    }
    async with opened("memory:") as hf:
        for language, cases in (("javascript", JAVASCRIPT), ("lua", LUA)):
            here = await _session(hf, language)
            await hf.executions.run(here, begin[language])
            for source, expected in cases:
                assert value(await hf.executions.run(here, source)) == expected, source
            now = value(await hf.executions.run(here, "return clock.now()" if language == "lua" else "clock.now()"))
            assert abs(now / 1000 - time.time()) < 60


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"names": ["A", "HOLDFAST_TOKEN"]}, "config.names[1]"),
        ({"names": ["holdfast_store"]}, "config.names[0]"),
        ({"names": ["A=B"]}, "config.names[0]"),
        ({"names": [""]}, "config.names[0]"),
        ({"names": "PATH"}, "config.names"),
        ({"values": {"A": 1}}, "config.values.A"),
        ({"values": {"A B": ""}}, "config.values"),
        ({"values": {"A": "x" * 70_000}}, "config.values.A"),
        ({"all": True}, "config.all"),
    ],
)
def test_a_bad_config_of_env_names_its_field(config: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        Env.read_config(config)
    assert str(raised.value).startswith(field)
