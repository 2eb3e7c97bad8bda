"""Instances by way of wasmtime's C API, called by pointers. See `_crossing` for what it is for."""

import ctypes
from typing import Any, Final, NoReturn

import wasmtime
from wasmtime import _bindings as api
from wasmtime import _ffi

from holdfast.sandbox._crossing import BOOT, TABLE_ELEMENTS, WASM_PAGE, HostSide, Instance, Running, Trapped
from holdfast.sandbox._errors import GuestFault, GuestUnavailable

_pointer = ctypes.c_void_p
_dll = _ffi.dll


def _function(name: str, result: Any, *arguments: Any, keep_lock: bool = False) -> Any:
    """A C function under a prototype of our own; those that take no time keep the interpreter lock."""
    prototype = (ctypes.PYFUNCTYPE if keep_lock else ctypes.CFUNCTYPE)(result, *arguments)
    return prototype((name, _dll))


_CALLBACK = ctypes.CFUNCTYPE(_pointer, _pointer, _pointer, ctypes.POINTER(api.wasmtime_val_raw_t), ctypes.c_size_t)
_DEADLINE = ctypes.CFUNCTYPE(_pointer, _pointer, _pointer, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint8))

_store_new = _function("wasmtime_store_new", _pointer, _pointer, _pointer, _pointer, keep_lock=True)
_store_delete = _function("wasmtime_store_delete", None, _pointer)
_store_delete_small = _function("wasmtime_store_delete", None, _pointer, keep_lock=True)
_store_context = _function("wasmtime_store_context", _pointer, _pointer, keep_lock=True)
_store_limiter = _function("wasmtime_store_limiter", None, _pointer, *[ctypes.c_int64] * 5, keep_lock=True)
store_deadline_callback = _function(
    "wasmtime_store_epoch_deadline_callback", None, _pointer, _DEADLINE, _pointer, _pointer, keep_lock=True
)
_set_deadline = _function("wasmtime_context_set_epoch_deadline", None, _pointer, ctypes.c_uint64, keep_lock=True)
_instantiate = _function("wasmtime_instance_pre_instantiate", _pointer, _pointer, _pointer, _pointer, _pointer)
_export_get = _function(
    "wasmtime_instance_export_get",
    ctypes.c_bool,
    _pointer,
    _pointer,
    ctypes.c_char_p,
    ctypes.c_size_t,
    _pointer,
    keep_lock=True,
)
_memory_data = _function("wasmtime_memory_data", _pointer, _pointer, _pointer, keep_lock=True)
_memory_data_size = _function("wasmtime_memory_data_size", ctypes.c_size_t, _pointer, _pointer, keep_lock=True)
_memory_grow = _function("wasmtime_memory_grow", _pointer, _pointer, _pointer, ctypes.c_uint64, _pointer)
_call = _function("wasmtime_func_call_unchecked", _pointer, _pointer, _pointer, _pointer, ctypes.c_size_t, _pointer)
_error_new = _function("wasmtime_error_new", _pointer, ctypes.c_char_p, keep_lock=True)
_error_delete = _function("wasmtime_error_delete", None, _pointer, keep_lock=True)
_error_message = _function("wasmtime_error_message", None, _pointer, _pointer, keep_lock=True)
_trap_new = _function("wasmtime_trap_new", _pointer, ctypes.c_char_p, ctypes.c_size_t, keep_lock=True)
_trap_code = _function("wasmtime_trap_code", ctypes.c_bool, _pointer, _pointer, keep_lock=True)
_trap_delete = _function("wasm_trap_delete", None, _pointer, keep_lock=True)
_bytes_delete = _function("wasm_byte_vec_delete", None, _pointer, keep_lock=True)
_linker_define = _function(
    "wasmtime_linker_define_func_unchecked",
    _pointer,
    _pointer,
    ctypes.c_char_p,
    ctypes.c_size_t,
    ctypes.c_char_p,
    ctypes.c_size_t,
    _pointer,
    _CALLBACK,
    _pointer,
    _pointer,
)

_STACK_OVERFLOW: Final = wasmtime.TrapCode.STACK_OVERFLOW.value
_STOPPED: Final = b"stopped"
_SMALL: Final = 32 << 20


def _take_error(error: int) -> str:
    vector = api.wasm_byte_vec_t()
    _error_message(error, ctypes.addressof(vector))
    message = ctypes.string_at(vector.data, vector.size).decode(errors="replace")
    _bytes_delete(ctypes.addressof(vector))
    _error_delete(error)
    return message


def _take_trap(trap: int) -> Trapped:
    code = ctypes.c_uint8()
    known = _trap_code(trap, ctypes.addressof(code))
    _trap_delete(trap)
    return Trapped("trap", stack=bool(known) and code.value == _STACK_OVERFLOW)


class Unchecked:
    """Instances by way of the C API."""

    def __init__(self, engine: wasmtime.Engine, module: wasmtime.Module, running: Running) -> None:
        linker = wasmtime.Linker(engine)
        self._callbacks = [_host_call(running), _host_take(running)]
        for name, callback in zip(("call", "take"), self._callbacks, strict=True):
            kind = next((i.type for i in module.imports if (i.module, i.name) == ("holdfast", name)), None)
            if isinstance(kind, wasmtime.FuncType):
                error = _linker_define(address(linker), b"holdfast", 8, name.encode(), 4, address(kind), callback, None, None)
                if error:
                    raise GuestFault(_take_error(error))
        self._pre = linker.instantiate_pre(module)
        self._deadline = deadline_callback(running)
        self._keep = (engine, module, linker)
        self._engine = address(engine)

    def instantiate(self, memory: int) -> Instance:
        return _UncheckedInstance(self._engine, address(self._pre), self._deadline, memory)


def address(managed: Any) -> int:
    return int(ctypes.cast(managed.ptr(), _pointer).value or 0)


def _host(running: Running) -> HostSide:
    assert running.host is not None  # guests run only inside a step
    return running.host


def _host_call(running: Running) -> Any:
    def callback(environment: int, caller: int, values: Any, count: int) -> int | None:
        try:
            values[0].i32 = _host(running).host_call(values[0].i32, *(values[i].i32 & 0xFFFFFFFF for i in (1, 2, 3, 4)))
        except BaseException:  # noqa: BLE001  kept by the callee; here the guest must stop
            return int(_trap_new(b"host", 4))
        return None

    return _CALLBACK(callback)


def _host_take(running: Running) -> Any:
    def callback(environment: int, caller: int, values: Any, count: int) -> int | None:
        try:
            _host(running).host_take(values[0].i32 & 0xFFFFFFFF, values[1].i32 & 0xFFFFFFFF)
        except BaseException:  # noqa: BLE001
            return int(_trap_new(b"host", 4))
        return None

    return _CALLBACK(callback)


def deadline_callback(running: Running) -> Any:
    """The callback of the clock, for `store_deadline_callback`."""

    def callback(context: int, data: int, ticks: Any, kind: Any) -> int | None:
        ticks[0], kind[0] = 1, 0  # first of all: an interrupt may come at any moment
        host = running.host
        try:
            more = 0 if host is None else host.look()
        except BaseException as error:  # noqa: BLE001  KeyboardInterrupt, as a rule; raised again by the step
            if host is not None:
                host.failed(error)
            more = 0
        if not more:
            return int(_error_new(_STOPPED))
        ticks[0] = more
        return None

    return _DEADLINE(callback)


class _UncheckedInstance:
    __slots__ = (
        "_context",
        "_instance",
        "_memory",
        "_memory_at",
        "_slot",
        "_slot_at",
        "_step",
        "_step_at",
        "_store",
        "_trap",
        "_trap_at",
        "base",
    )

    def __init__(self, engine: int, pre: int, deadline: Any, memory: int) -> None:
        self._store = _store_new(engine, None, None)
        self._context = context = _store_context(self._store)
        _store_limiter(self._store, memory, TABLE_ELEMENTS, 1, 1, 1)
        store_deadline_callback(self._store, deadline, None, None)
        _set_deadline(context, BOOT)
        self._trap = ctypes.c_void_p()
        self._trap_at = ctypes.addressof(self._trap)
        self._slot = api.wasmtime_val_raw_t()
        self._slot_at = ctypes.addressof(self._slot)
        self._instance = api.wasmtime_instance_t()
        error = _instantiate(pre, context, ctypes.addressof(self._instance), self._trap_at)
        if error or self._trap.value:
            _store_delete(self._store)
            self._raise(error)
        self._memory = self._export(b"memory")
        self._memory_at = ctypes.addressof(self._memory.of)
        self._step = self._export(b"hf_step")
        self._step_at = ctypes.addressof(self._step.of)
        self.base = int(_memory_data(context, self._memory_at))

    def _export(self, name: bytes) -> Any:
        extern = api.wasmtime_extern_t()
        if not _export_get(self._context, ctypes.addressof(self._instance), name, len(name), ctypes.addressof(extern)):
            raise GuestUnavailable(f"the guest exports no {name.decode()}")
        return extern

    def _raise(self, error: int | None) -> NoReturn:
        if error:
            raise Trapped(_take_error(error), stack=False)
        trap, self._trap.value = self._trap.value, None
        raise _take_trap(trap or 0)

    def size(self) -> int:
        return int(_memory_data_size(self._context, self._memory_at))

    def grow_to(self, size: int) -> bool:
        missing = size - self.size()
        if missing <= 0:
            return True
        before = ctypes.c_uint64()
        error = _memory_grow(self._context, self._memory_at, -(-missing // WASM_PAGE), ctypes.addressof(before))
        if error:
            _error_delete(error)
        return not error

    def step(self, length: int) -> int:
        slot = self._slot
        slot.i64 = length
        error = _call(self._context, self._step_at, self._slot_at, 1, self._trap_at)
        if error or self._trap.value:
            self._raise(error)
        return int(slot.i64) & 0xFFFFFFFFFFFFFFFF

    def call(self, name: str, argument: int | None = None) -> int:
        function = self._export(name.encode())
        self._slot.i64 = argument or 0
        error = _call(self._context, ctypes.addressof(function.of), self._slot_at, 1, self._trap_at)
        if error or self._trap.value:
            self._raise(error)
        return int(self._slot.i32) & 0xFFFFFFFF

    def arm(self, ticks: int) -> None:
        _set_deadline(self._context, ticks)

    def close(self) -> None:
        store, self._store = self._store, None
        if store:  # to give the lock away and get it back may take longer than to free a small memory
            delete = _store_delete_small if _memory_data_size(self._context, self._memory_at) < _SMALL else _store_delete
            delete(store)
