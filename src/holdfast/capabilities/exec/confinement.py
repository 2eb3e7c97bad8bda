"""Takes what Holdfast keeps out of a program's sight: the data directory, the store's file, tokens.

Theory of operation
-------------------
A program runs as the daemon's user, to whom these files belong, so permissions do not keep it out. Two means of Linux do; the supervisor
uses them on itself and on the program, and imports this file only if there is something to hide.

- A mount namespace of its own, with something empty mounted over each hidden path. It denies one folder and changes nothing else. Root
  makes one as it is; others make it in a user namespace that maps them to themselves. The session's worktree is mounted back if it lies
  in a hidden folder. Each folder above a hidden path is mounted onto itself: the kernel neither renames nor removes a mount point, so no
  program moves the hidden files to another path, or puts files of its own at theirs. The price: a rename across such a folder is one to
  another file system (`EXDEV`).
- A Landlock domain. It keeps a program from undoing the mounts, and from the memory, the environment and the descriptors of every process
  outside the domain. Where no mount namespace can be made, the domain denies the hidden paths as well. Landlock only knows what is allowed,
  and that holds for all below: so each entry of each folder above a hidden path is allowed one by one. The price: a program makes no new
  entries in those folders themselves.

Where neither is there, nothing is hidden, and what holds is that arguments do not name these paths (`docs/modules.md`).

The supervisor imports this file by itself, without the package.
"""

import ctypes
import os
import stat
import struct
import sys
from typing import Any, Final, NamedTuple

_libc: Final[Any] = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

_NEW_MOUNTS: Final = 0x00020000
_NEW_USERS: Final = 0x10000000
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_EXEC = 1, 2, 4, 8
_REMOUNT, _BIND, _RECURSIVE, _SLAVE = 32, 4096, 16384, 1 << 19
_CLOSED: Final = _READ_ONLY | _NO_SUID | _NO_DEVICES | _NO_EXEC
_DROP_CAPABILITY: Final = 24
_CAPABILITIES: Final = (2, 16, 17, 18, 19, 21, 22, 27, 38, 39, 40)
"""What root could reach hidden files with: reading by inode number, kernel modules, raw devices, chroot, tracing, mounts, reboot, device
files, performance counters, BPF, and restoring checkpoints."""

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_BENEATH: Final = 1
_MAKE_CHAR, _MAKE_BLOCK, _READ_DIR, _REFER = 1 << 6, 1 << 11, 1 << 3, 1 << 13
_OF_FILES: Final = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
_LEAST_ABI: Final = 2
"""Before that a program in a domain can move no file to another folder."""
_RIGHTS: Final = {2: 14, 3: 15, 4: 15}
"""How many rights there are by version; there are 16 since 5."""
_FOUND: Final = getattr(os, "O_PATH", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class Hidden(NamedTuple):
    """A folder or a file to hide, by the path that it really has, and by what it is: pairs of device and inode numbers."""

    path: str
    identities: list[tuple[int, int]]


class Plan(NamedTuple):
    """What is hidden from one program. The root of its worktree stays."""

    hidden: list[Hidden]
    root: str
    root_identity: tuple[int, int]

    def plain(self) -> list[Any]:
        """In plain lists, for the way to another process."""
        return [[[one.path, list(map(list, one.identities))] for one in self.hidden], self.root, list(self.root_identity)]

    @classmethod
    def read(cls, plain: list[Any]) -> "Plan":
        hidden, root, (device, number) = plain
        return cls([Hidden(path, [(one, other) for one, other in pairs]) for path, pairs in hidden], root, (device, number))


def hide(plan: Plan) -> bool:
    """Give this process mounts of its own, in which the hidden paths are empty. The working directory stays. False: it cannot be done."""
    if not _separate():
        return False
    here = os.stat(".")
    try:
        path = os.getcwd()
        for one in sorted(plan.hidden):
            _cover(one, plan)
        _pin_ancestors(plan)
        os.chdir(path)  # the folder is under what was mounted, and its parents there are not those of the program's paths
        if _identity(os.stat(".")) != _identity(here):
            os._exit(1)  # another folder has this name by now: nothing is run there
        return not any(_is_there(one) for one in plan.hidden)
    except OSError:
        return False


def fence(plan: Plan, *, is_hidden: bool) -> None:
    """Put this process into a domain of Landlock, if there is one, and take from root what leads around it. No way back."""
    if os.geteuid() == 0:
        for number in _CAPABILITIES:
            _libc.prctl(_DROP_CAPABILITY, ctypes.c_ulong(number), 0, 0, 0)
    version = _libc.syscall(_CREATE, None, ctypes.c_size_t(0), 1)
    if version < _LEAST_ABI:
        return
    every = (1 << _RIGHTS.get(version, 16)) - 1
    handled = _REFER | _MAKE_CHAR | _MAKE_BLOCK if is_hidden else every
    rules = _libc.syscall(_CREATE, struct.pack("Q", handled), ctypes.c_size_t(8), 0)
    if rules < 0:
        return
    if is_hidden:
        _allow(rules, "/", _REFER)
    else:
        _allow_others(rules, "/", plan, every)
    _libc.syscall(_RESTRICT, rules, 0)
    os.close(rules)


# ---- mounts


def _separate() -> bool:
    """Whether this process has mounts of its own now, which no other process sees."""
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_NEW_MOUNTS) != 0:
        if _libc.unshare(_NEW_MOUNTS | _NEW_USERS) != 0:
            return False
        try:
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"{user} {user} 1")
            _write("/proc/self/gid_map", f"{group} {group} 1")
        except OSError:
            return False
    return bool(_libc.mount(None, b"/", None, ctypes.c_ulong(_RECURSIVE | _SLAVE), None) == 0)


def _cover(one: Hidden, plan: Plan) -> None:
    try:
        place = os.open(one.path, _FOUND)
    except FileNotFoundError:  # it is in a folder that is hidden already, or was removed
        return
    try:
        found = os.fstat(place)
        if stat.S_ISLNK(found.st_mode):
            return
        if not stat.S_ISDIR(found.st_mode):
            _mount("/dev/null", _by(place), "", _BIND)
            # A device file on a mount without devices cannot be opened, not even by root.
            _mount("", one.path, "", _REMOUNT | _BIND | _CLOSED)
            return
        kept = os.open(plan.root, _FOUND) if plan.root.startswith(one.path + "/") else -1
        _mount("tmpfs", _by(place), "tmpfs", _NO_SUID | _NO_DEVICES | _NO_EXEC, "size=64k,nr_inodes=100,mode=755")
        if kept >= 0:
            if _identity(os.fstat(kept)) != plan.root_identity:
                raise FileNotFoundError
            os.makedirs(plan.root, 0o755)
            _mount(_by(kept), plan.root, "", _BIND | _RECURSIVE)
            os.close(kept)
        _mount("", one.path, "", _REMOUNT | _CLOSED)
    finally:
        os.close(place)


def _pin_ancestors(plan: Plan) -> None:
    """Mount each folder above a hidden path onto itself, with all mounts in it: a mount point cannot be renamed, removed or replaced.

    From the top, since a folder's mounts are copied with it. The covers are there already, so that they are in each copy.
    """
    hidden = [one.path for one in plan.hidden]
    for folder in sorted({folder for path in hidden for folder in _ancestors(path)}, key=len):
        if not any(folder == path or folder.startswith(path + "/") for path in hidden):  # these are closed mounts
            _mount(folder, folder, "", _BIND | _RECURSIVE)


def _ancestors(path: str) -> list[str]:
    """Folders above a path, without the root."""
    names = path.split("/")
    return ["/".join(names[:end]) for end in range(2, len(names))]


def _is_there(one: Hidden) -> bool:
    try:
        return _identity(os.stat(one.path, follow_symlinks=False)) in one.identities
    except OSError:
        return False


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    given = [part.encode() or None for part in (source, target, kind, options)]
    if _libc.mount(*given[:3], ctypes.c_ulong(flags), given[3]) != 0:
        raise OSError(ctypes.get_errno(), "mount")


def _by(descriptor: int) -> str:
    """A path of what is open, that nobody can put anything else in the place of."""
    return f"/proc/self/fd/{descriptor}"


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


# ---- Landlock


def _allow(rules: int, path: str, rights: int) -> None:
    """Allow rights for a file or folder, and for all that is below it. One that is gone needs none."""
    try:
        found = os.open(path, _FOUND)
    except OSError:
        return
    if not stat.S_ISDIR(os.fstat(found).st_mode):
        rights &= _OF_FILES
    _libc.syscall(_ADD_RULE, rules, _BENEATH, struct.pack("=Qi", rights, found), 0)
    os.close(found)


def _allow_others(rules: int, folder: str, plan: Plan, every: int) -> None:
    """Allow all rights for all in a folder that is above hidden paths, but for these; in the folder itself, to list it."""
    _allow(rules, folder, _READ_DIR)
    try:
        names = os.listdir(folder)
    except OSError:
        return
    paths = {one.path for one in plan.hidden}
    for path in (os.path.join(folder, name) for name in names):
        if path in paths:
            if plan.root.startswith(path + "/"):
                _allow(rules, plan.root, every)
        elif any(one.startswith(path + "/") for one in paths):
            _allow_others(rules, path, plan, every)
        else:
            _allow(rules, path, every)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
