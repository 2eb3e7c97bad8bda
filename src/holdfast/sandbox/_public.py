"""Instances by way of wasmtime's documented Python API, but for the callback of the clock, which has no documented form.

See `_crossing` for what it is for.
"""

import ctypes
from collections.abc import Mapping
from typing import Any

import wasmtime

from holdfast.sandbox._crossing import BOOT, TABLE_ELEMENTS, WASM_PAGE, Instance, Running, Trapped
from holdfast.sandbox._errors import GuestUnavailable
from holdfast.sandbox._unchecked import address, deadline_callback, store_deadline_callback


class Public:
    """Instances by way of the Python API."""

    def __init__(self, engine: wasmtime.Engine, module: wasmtime.Module, running: Running) -> None:
        def call(operation: int, request: int, length: int, reply: int, capacity: int) -> int:
            assert running.host is not None  # guests run only inside a step
            return running.host.host_call(operation, *(n & 0xFFFFFFFF for n in (request, length, reply, capacity)))

        def take(reply: int, length: int) -> None:
            assert running.host is not None
            running.host.host_take(reply & 0xFFFFFFFF, length & 0xFFFFFFFF)

        self._engine, self._module = engine, module
        self._linker = wasmtime.Linker(engine)
        self._deadline = deadline_callback(running)
        for imported in module.imports:
            if imported.module == "holdfast" and isinstance(imported.type, wasmtime.FuncType):
                function = call if imported.name == "call" else take
                self._linker.define_func(imported.module, imported.name or "", imported.type, function)

    def instantiate(self, memory: int) -> Instance:
        store = wasmtime.Store(self._engine)
        store.set_limits(memory_size=memory, table_elements=TABLE_ELEMENTS, instances=1, tables=1, memories=1)
        store.set_epoch_deadline(BOOT)
        store_deadline_callback(address(store), self._deadline, None, None)
        return _PublicInstance(store, self._linker.instantiate(store, self._module).exports(store))


class _PublicInstance:
    def __init__(self, store: wasmtime.Store, exports: Mapping[str, Any]) -> None:
        memory = exports["memory"]
        if not isinstance(memory, wasmtime.Memory):
            raise GuestUnavailable("the guest exports no memory")
        self._store, self._exports, self._memory = store, exports, memory
        self.base = ctypes.addressof(memory.data_ptr(store).contents)

    def size(self) -> int:
        return self._memory.data_len(self._store)

    def grow_to(self, size: int) -> bool:
        missing = size - self.size()
        if missing <= 0:
            return True
        try:
            self._memory.grow(self._store, -(-missing // WASM_PAGE))
        except wasmtime.WasmtimeError:
            return False
        return True

    def step(self, length: int) -> int:
        return self._invoke("hf_step", length) & 0xFFFFFFFFFFFFFFFF

    def call(self, name: str, argument: int | None = None) -> int:
        return self._invoke(name, *(() if argument is None else (argument,))) & 0xFFFFFFFF

    def _invoke(self, name: str, *arguments: int) -> int:
        function = self._exports[name]
        if not isinstance(function, wasmtime.Func):
            raise GuestUnavailable(f"the guest exports no {name}")
        try:
            return int(function(self._store, *arguments) or 0)
        except wasmtime.Trap as trap:
            raise Trapped("trap", stack=trap.trap_code == wasmtime.TrapCode.STACK_OVERFLOW) from None
        except Exception as error:  # noqa: BLE001  what a host function raised arrives here as it was
            raise Trapped(type(error).__name__, stack=False) from None

    def arm(self, ticks: int) -> None:
        self._store.set_epoch_deadline(ticks)

    def close(self) -> None:
        self._store.close()
