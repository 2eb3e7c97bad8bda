"""What a helper process gives up before it sees any SQL: resources, signals, files and system calls.

All that a kernel or a system lacks is left out. The rules of SQL and the functions of `vfs` hold without any of this: it is what stands if
one of them, or SQLite itself, has a hole.
"""

import contextlib
import ctypes
import os
import platform
import resource
import signal
import struct
import sys
from typing import Any, Final

_IS_LINUX: Final = sys.platform == "linux"
_LIBC: Final = ctypes.CDLL(None, use_errno=True)

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38

_MOST_FILES: Final = 24
_CPU_S: Final = 3_600
"""Of a whole life. A call has a limit of its own, which its timer keeps."""


def die_with(parent: int) -> None:
    """Sees to it that this process ends when its parent does."""
    _control(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def limit(memory: int, largest_file: int) -> None:
    """Limits of the system. `memory` is how much there may be beyond what the process has now."""
    for kind, value in {
        "RLIMIT_CORE": 0,
        "RLIMIT_CPU": _CPU_S,
        "RLIMIT_FSIZE": largest_file,
        "RLIMIT_NOFILE": _MOST_FILES,
        "RLIMIT_NPROC": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_AS": _address_space() + memory,
    }.items():
        number = getattr(resource, kind, None)
        if number is not None:
            with contextlib.suppress(OSError, ValueError):
                hard = resource.getrlimit(number)[1]
                wanted = value if hard == resource.RLIM_INFINITY else min(value, hard)
                resource.setrlimit(number, (wanted, wanted))


def confine(folder: int) -> list[str]:
    """Takes away all files but those below a folder (none if it is -1), and all system calls that SQLite has no use for. Gives the
    names of what holds.
    """
    if not _IS_LINUX:
        return []
    _control(_PR_SET_DUMPABLE, 0)
    if _control(_PR_SET_NO_NEW_PRIVS, 1) != 0:
        return []
    return [name for name, holds in (("landlock", _landlock(folder)), ("seccomp", _seccomp())) if holds]


def _address_space() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 1 << 30


def _control(option: int, value: Any) -> int:
    return int(_LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0)) if _IS_LINUX else -1


# ---- Landlock ----------------------------------------------------------------------------------------------------------------------

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG: Final = 1
_PATH_BENEATH: Final = 1
_HANDLED_FILES: Final = ((1, 0x1FFF), (2, 0x2000), (3, 0x4000), (5, 0x8000))
"""Rights that a ruleset takes away, by the version of the interface in which they came."""
_GRANTED_FILES: Final = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 8 | 1 << 14
"""Write, read, list, remove a file, make a file, truncate."""
_HANDLED_TCP: Final = 3
_SCOPED: Final = 3
"""Abstract sockets and signals."""


def _landlock(folder: int) -> bool:
    syscall = _LIBC.syscall
    version = int(syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG)))
    if version < 1:
        return False
    handled = sum(rights for since, rights in _HANDLED_FILES if version >= since)
    attributes = struct.pack("=QQQ", handled, _HANDLED_TCP, _SCOPED)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = int(syscall(ctypes.c_long(_CREATE_RULESET), attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0)))
    if ruleset < 0:
        return False
    try:
        if folder >= 0:
            rule = struct.pack("=Qi", _GRANTED_FILES & handled, folder)
            if syscall(ctypes.c_long(_ADD_RULE), ruleset, _PATH_BENEATH, rule, ctypes.c_uint32(0)) != 0:
                return False
        return bool(syscall(ctypes.c_long(_RESTRICT_SELF), ruleset, ctypes.c_uint32(0)) == 0)
    finally:
        os.close(ruleset)


# ---- seccomp -----------------------------------------------------------------------------------------------------------------------

_MACHINES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_CALLS: Final[dict[str, tuple[int | None, int | None]]] = {
    "recvfrom": (45, 207), "sendto": (44, 206), "poll": (7, None), "ppoll": (271, 73), "pread64": (17, 67), "pwrite64": (18, 68),
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "fcntl": (72, 25), "futex": (202, 98),
    "setitimer": (38, 103), "getitimer": (36, 102), "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101), "gettimeofday": (96, 169), "time": (201, None), "getrusage": (98, 165),
    "open": (2, None), "openat": (257, 56), "close": (3, 57), "dup": (32, 23), "lseek": (8, 62), "stat": (4, None), "lstat": (6, None),
    "fstat": (5, 80), "newfstatat": (262, 79), "statx": (332, 291), "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439),
    "unlink": (87, None), "unlinkat": (263, 35), "ftruncate": (77, 46), "fallocate": (285, 47), "fsync": (74, 82), "fdatasync": (75, 83),
    "fchmod": (91, 52), "fchown": (93, 55), "getcwd": (79, 17),
    "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "mremap": (25, 216), "brk": (12, 214), "madvise": (28, 233),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132),
    "restart_syscall": (219, 128), "sched_yield": (24, 124), "set_robust_list": (273, 99), "rseq": (334, 293), "getrandom": (318, 278),
    "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173), "getuid": (102, 174), "geteuid": (107, 175),
    "shutdown": (48, 210), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
"""All system calls that there are, by their numbers on both machines: no exec, fork, socket, ptrace, signals to others."""
_MAPPINGS: Final = ("mmap", "mprotect")
_EXECUTABLE: Final = 4

_LOAD, _EQUALS, _HAS, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER_AT, _MACHINE_AT, _PROTECTION_AT = 0, 4, 16 + 2 * 8
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | 1
_KILL: Final = 0x80000000


def _seccomp() -> bool:
    if platform.machine() not in _MACHINES or sys.maxsize < 1 << 32:
        return False
    program = filter_program(platform.machine())
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    return int(_LIBC.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(2), header, 0, 0)) == 0


def filter_program(machine: str) -> bytes:
    """What the kernel runs at each system call. What is not listed fails with EPERM, as does memory that could be executed."""
    architecture, column = _MACHINES[machine]
    plain = [numbers[column] for name, numbers in _CALLS.items() if name not in _MAPPINGS]
    numbers = [number for number in plain if number is not None]
    maps = [number for name in _MAPPINGS if (number := _CALLS[name][column]) is not None]
    # Jumps count instructions. At the end there are: a look at the protection, refuse, allow.
    end = len(numbers) + len(maps) + 1
    lines = [
        _line(_LOAD, 0, 0, _MACHINE_AT),
        _line(_EQUALS, 1, 0, architecture),
        _line(_RETURN, 0, 0, _KILL),
        _line(_LOAD, 0, 0, _NUMBER_AT),
    ]
    tests = [(number, end + 3) for number in numbers] + [(number, end) for number in maps]
    lines += [_line(_EQUALS, target - at - 1, 0, number) for at, (number, target) in enumerate(tests)]
    return b"".join(
        [
            *lines,
            _line(_RETURN, 0, 0, _REFUSE),
            _line(_LOAD, 0, 0, _PROTECTION_AT),
            _line(_HAS, 0, 1, _EXECUTABLE),
            _line(_RETURN, 0, 0, _REFUSE),
            _line(_RETURN, 0, 0, _ALLOW),
        ]
    )


def _line(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
