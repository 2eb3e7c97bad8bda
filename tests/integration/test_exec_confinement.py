"""Programs run as the daemon's user, and do not see what the daemon keeps: by mounts of their own, or by Landlock alone."""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast.capabilities import Meter, NativeModules, Scope, modules
from holdfast.capabilities.exec import confinement
from holdfast.capabilities.files import protected
from holdfast.capabilities.native import Grant
from holdfast.sandbox import HostError

SECRET = "the-sealing-key"
SHELL = "/bin/sh"
FILE = Path(confinement.__file__)

if not sys.platform.startswith("linux"):
    pytest.skip("mount namespaces and Landlock are Linux's", allow_module_level=True)


class Host:
    """A data directory, a store in the worktree, and programs."""

    def __init__(self, base: Path) -> None:
        self.base, self.data, self.tree = base, base / "data", base / "tree"
        for folder in ("data/worktrees/w/sub", "data/worktrees/other", "data/packages", "tree/sub"):
            (base / folder).mkdir(parents=True)
        for name in ("data/token", "data/holdfast.db", "tree/work.db", "tree/work.db-wal", "data/worktrees/other/note"):
            (base / name).write_text(SECRET)

    def call(self, name: str, tree: Path, *programs: Any) -> Callable[..., Any]:
        made = NativeModules([Grant(modules()["exec"], _settled(programs))], Scope(uuid4(), uuid4(), str(tree)), Meter())
        return {name: call for name, call, _ in made.functions()}[f"exec.{name}"]

    def shell(self, source: str, tree: Path | None = None) -> str:
        """What a shell says that reads its commands, so that nobody can look at them before."""
        told = self.call("spawnSync", tree or self.tree, SHELL)(SHELL, [], {"input": source})
        return f"{told['stdout']}{told['stderr']}"


def _settled(programs: tuple[Any, ...]) -> Any:
    return modules()["exec"].settle({"programs": list(programs)})


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    end = protected.protect(data_dir=host.data, paths=[host.tree / "work.db"])
    yield host
    end()


def test_a_program_finds_nothing(host: Host) -> None:
    """By no name, no descriptor and no other process; and it can go about its work beside that."""
    pid, here = os.getpid(), host.base
    held = [os.open(host.data / "token", os.O_RDONLY), os.open(host.data, os.O_RDONLY), os.open("/", os.O_RDONLY)]
    try:
        told = host.shell(f"""
            cat {host.data}/token {host.data}/holdfast.db work.db work.db-wal ../data/token ../data/worktrees/other/note
            cp work.db copy; ln work.db hard; cat copy hard; mv work.db moved; cat moved; mv {host.data} {here}/gone; cat {here}/gone/*
            find {here} -type f -exec cat {{}} +
            cat /proc/{pid}/fd/{held[0]} /proc/{pid}/fd/{held[1]}/token /proc/{pid}/fd/{held[2]}{host.data}/token
            cat /proc/{pid}/root{host.data}/token /proc/{pid}/task/*/root{host.data}/token /proc/$PPID/root{host.data}/token
            cat /proc/$PPID/fd/*/../data/token /proc/$PPID/cwd/../data/token /proc/$PPID/task/*/cwd/../data/token
            cat /proc/self/root{host.data}/token /proc/1/root{host.data}/token
            nsenter -t {pid} -m cat {host.data}/token; nsenter -t $PPID -m cat {host.data}/token
            umount {host.data}; umount -l {host.data}; cat {host.data}/token
            unshare -rm sh -c 'umount {host.data}; cat {host.data}/token'
            tr '\\0' '\\n' < /proc/{pid}/environ; dd if=/proc/{pid}/mem bs=1 count=1
            echo a > new && mkdir -p x/y z && mv new x/y/b && ln x/y/b z/c && cat z/c && echo d > {here}/beside && cat {here}/beside
        """)
    finally:
        for descriptor in held:
            os.close(descriptor)
    assert SECRET not in told
    assert "PATH=" not in told
    assert told.startswith("a\nd\n")
    assert (host.tree / "work.db").read_text() == (host.data / "token").read_text() == SECRET
    assert (here / "beside").read_text() == "d\n"


def test_a_worktree_in_the_data_directory_stays(host: Host) -> None:
    tree = host.data / "worktrees/w"
    told = host.shell("pwd; echo a > b; cat $PWD/b; ls ..; cat ../other/note; cat ../../token; ls ../..", tree)
    assert SECRET not in told
    assert told.startswith(f"{tree}\na\nw\nworktrees\n")
    assert (tree / "b").read_text() == "a\n"


def test_no_folder_above_is_moved_or_replaced(tmp_path: Path) -> None:
    """A program that could rename one would read the files under the new path, and leave files of its own under the old one."""
    above = tmp_path / "above"
    host = Host(above / "lab")
    (host.base / "beside").mkdir()
    end = protected.protect(data_dir=host.data)
    told = host.shell(f"""
        cd /; mv {host.base} {above}/moved; mv {above} {above}-moved; rm -rf {host.base}/data; rmdir {host.base}
        mv -T {host.base}/beside {host.base}; mkdir {above}/own; mv --exchange -T {above}/own {host.base}
        cat {above}/moved/data/token {above}-moved/*/data/token {above}/own/data/token
        cd {host.tree}/sub && cat ../../data/token; cd ../..; cat data/token
        echo a > {above}/file && mv {above}/file {host.tree}/file && cat {host.tree}/file
    """)
    end()
    assert SECRET not in told
    assert told.startswith("a\n")
    assert (host.data / "token").read_text() == SECRET
    assert not (above / "moved").exists()


def test_what_was_moved_is_hidden_where_it_is_now(tmp_path: Path) -> None:
    """By whoever else has the rights of the daemon's user: with a folder of theirs, and links, in its place."""
    host, tree, now = Host(tmp_path / "lab"), tmp_path / "work", tmp_path / "lab2"
    tree.mkdir()
    end = protected.protect(data_dir=host.data, paths=[host.tree / "work.db"])
    try:
        os.rename(tmp_path / "lab", now)
        host.data.mkdir(parents=True)
        for name in ("token", "holdfast.db"):
            (host.data / name).symlink_to(now / "data" / name)
        inside = f"{now}/data/token {now}/data/holdfast.db {now}/tree/work.db {now}/tree/work.db-wal"
        told = host.shell(f"cat {inside} {host.data}/token; find {tmp_path} -type f -exec cat {{}} +; echo done", tree)
        assert SECRET not in told
        assert "done" in told
        with pytest.raises(HostError) as raised:
            host.call("run", tree, "/bin/cat")("/bin/cat", [f"{now}/data/packages/../token"])
        assert raised.value.script_code == "ARGUMENTS_NOT_ALLOWED"
        os.link(now / "data/holdfast.db", tree / "hard")
        assert protected.is_protected(os.stat(tree / "hard"))
    finally:
        end()


def test_nothing_runs_if_what_is_to_be_hidden_cannot_be_found(host: Host) -> None:
    os.link(host.tree / "work.db", host.base / "other-name")
    (host.tree / "work.db").unlink()  # the kernel does not tell what other names a file has
    with pytest.raises(HostError) as raised:
        host.shell(f"cat {host.base}/other-name")
    assert raised.value.script_code == "PROGRAM_FAILED"
    (host.base / "other-name").unlink()
    assert host.shell("echo a") == "a\n"


def test_words_that_name_it_are_refused(host: Host) -> None:
    run = host.call("run", host.tree, "/bin/echo", {"path": "/usr/bin/env", "env": ["A"]})
    (host.tree / "link").symlink_to(host.data)
    os.link(host.data / "token", host.tree / "hard")
    named = [
        str(host.data),
        f"{host.data}/token",
        "../data",
        "./../tree/../data/x",
        "link",
        "link/token",
        f"--file={host.data}/token",
    ]
    named += [
        f"-C{host.data}",
        f"file://{host.data}/token",
        f"a:{host.data}",
        f"cat<{host.data}/token",
        "work.db",
        "hard",
        "@../data/token",
    ]
    for word in named:
        with pytest.raises(HostError) as raised:
            run("/bin/echo", ["-n", word])
        assert raised.value.script_code == "ARGUMENTS_NOT_ALLOWED", word
        with pytest.raises(HostError):
            run("/usr/bin/env", [], {"env": {"A": word}})
    fine = [f"{host.data}x", "data", str(host.base), "/", ".", str(host.tree), "--file=other.db", "x" * 5_000]
    assert run("/bin/echo", fine) == " ".join(fine) + "\n"
    inside = host.call("run", host.data / "worktrees/w", "/bin/echo")
    assert inside("/bin/echo", [f"{host.data}/worktrees/w/x"]) == f"{host.data}/worktrees/w/x\n"
    for folder in ("link", "../data", str(host.data)):
        with pytest.raises(HostError):
            run("/bin/echo", [], {"cwd": folder})


def test_what_a_program_begins_with(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CANARY", SECRET)
    left = os.open(host.base, os.O_RDONLY)
    os.set_inheritable(left, True)  # by other code of the process
    try:
        run = host.call("run", host.tree, "/usr/bin/env", "/bin/ls")
        assert sorted(run("/usr/bin/env").split()) == ["LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin"]
        assert run("/bin/ls", ["/proc/self/fd"]).split() == ["0", "1", "2", "3"]
    finally:
        os.close(left)


def test_no_program_lies_in_the_data_directory(host: Host) -> None:
    tool = host.data / "packages/tool"
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    with pytest.raises(Exception, match="not a program"):
        _settled((str(tool),))


def test_the_script_that_was_checked_is_the_one_that_runs(tmp_path: Path) -> None:
    """Also if another takes its place after the check, as a second session with a grant to write there can make it."""
    (tmp_path / "tree").mkdir()
    good, bad, spare = tmp_path / "tool", tmp_path / "bad", tmp_path / "spare"
    for path, word in ((good, "good"), (bad, "bad")):
        path.write_text(f"#!/bin/sh\necho {word}\n")
        path.chmod(0o755)
    run = Host.call(Host.__new__(Host), "run", tmp_path / "tree", str(good))
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for one, other in ((good, spare), (bad, good), (good, bad), (spare, good)):
                os.rename(one, other)

    swapping = threading.Thread(target=swap)
    swapping.start()
    told = []
    try:
        for _ in range(25):
            try:
                told.append(run(str(good)))
            except HostError as error:
                told.append(error.script_code)
    finally:
        stop.set()
        swapping.join()
    assert set(told) <= {"good\n", "PROGRAM_NOT_ALLOWED"}, told


# ---- each means by itself

ALONE = """
import ctypes, os, sys
sys.path.insert(0, os.path.dirname(sys.argv[0]))
import confinement
base, root, by_mounts = sys.argv[1], sys.argv[2], sys.argv[3] == "mounts"
identity = lambda path: (os.lstat(path).st_dev, os.lstat(path).st_ino)
paths = [f"{base}/data", f"{base}/tree/work.db"]
plan = confinement.Plan([confinement.Hidden(path, [identity(path)]) for path in paths], root, identity(root))
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
os.chdir(root)
if by_mounts and not confinement.hide(plan):
    sys.exit(77)
confinement.fence(plan, is_hidden=by_mounts)
os.execv("/bin/sh", ["sh", "-c", sys.argv[4]])
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may enter: pytest's are for its own alone."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("user", ["me", "nobody"])
@pytest.mark.parametrize("means", ["mounts", "landlock"])
@pytest.mark.parametrize("root", ["tree", "data/worktrees/w"])
def test_each_means_alone(open_folder: Path, user: str, means: str, root: str) -> None:
    python = "/usr/bin/python3" if user == "nobody" else sys.executable  # that of a private home is not for everybody
    if user == "nobody" and (os.geteuid() != 0 or not os.path.exists(python)):
        pytest.skip("another user cannot be had here")
    base = open_folder
    host = Host(base)
    (base / "confinement.py").write_text(FILE.read_text())
    (base / "alone.py").write_text(ALONE)
    options: dict[str, Any] = {}
    if user == "nobody":
        options = {"user": 65534, "group": 65534, "extra_groups": []}
        for path in (base, *base.rglob("*")):
            os.chown(path, 65534, 65534)
    source = f"""
        cat {base}/data/token {base}/tree/work.db {base}/data/worktrees/other/note; cat ../../token; umount {base}/data
        unshare -rm sh -c 'umount {base}/data; cat {base}/data/token'; cat /proc/{os.getpid()}/environ
        echo x > {base}/data/token; rm -r {base}/data/packages; mv {base}/data {base}/gone; mv {base} {base}-gone; cat {base}-gone/data/token; ln {base}/data/token hard; cat hard
        cd sub; echo a > new; mkdir -p x/y && mv new x/y/b && cat x/y/b
    """
    command = [python, str(base / "alone.py"), str(base), str(base / root), means, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **options)
    if done.returncode == 77:
        pytest.skip("no mount namespace can be made here")
    assert done.stdout == "a\n", done.stderr
    assert (host.data / "token").read_text() == SECRET
    assert (host.data / "packages").is_dir()
