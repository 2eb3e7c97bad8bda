"""What must happen in a process of its own: limits of file sizes and lost rights hold for a whole process.

    python -m tests.chaos.faults full_disk|read_only PATH

Prints what came of it as one line of JSON.
"""

import asyncio
import json
import os
import pwd
import resource
import stat
import sys
from pathlib import Path
from typing import Any

from holdfast import Holdfast, HoldfastError

SOURCE = "const got = []; for (let i = 0; i < 40; i++) got.push((await ask('?')).length); got"


async def full_disk(path: Path) -> dict[str, Any]:
    """A session in the middle of its work meets a limit of file sizes, which is lifted later."""
    async with Holdfast.open(f"sqlite:///{path}") as hf:
        await hf.templates.create("js")
        session, other = await hf.sessions.create("js"), await hf.sessions.create("js")
        turn = await hf.executions.run(session.id, SOURCE)
        limit = max(file.stat().st_size for file in path.parent.iterdir()) + 200_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        answered, errors = 0, []
        while turn.queries and len(errors) < 3:
            try:
                turn = await hf.queries.answer(session.id, "x" * 30_000 + str(answered), query=turn.queries[0].id)
                answered += 1
            except HoldfastError as error:
                errors.append([error.code, str(error)])
        known = await hf.executions.turn(turn.execution.id)  # reads still work
        there = [query.id for query in known.queries]
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        while turn.queries:
            turn = await hf.queries.answer(session.id, "x" * 30_000 + str(answered), query=turn.queries[0].id)
            answered += 1
        assert turn.execution.result is not None
        beside = await hf.executions.run(other.id, "1 + 1")
        assert beside.execution.result is not None
        return {
            "errors": errors,
            "there": there,
            "answered": answered,
            "result": turn.execution.result["json"],
            "other": beside.execution.result["json"],
        }


async def read_only(path: Path) -> dict[str, Any]:
    """A store whose file may only be read, then one whose folder may, both by somebody who is not root; then both are repaired.

    In Lua: whoever is not root has no compiled guests yet, and this one is compiled sooner.
    """
    async with Holdfast.open(f"sqlite:///{path}") as hf:
        await hf.templates.create("lua", language="lua")
        session = await hf.sessions.create("lua")
        await hf.executions.run(session.id, "x = 20")
    codes = []
    folder = path.parent
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for file in (folder, *folder.iterdir()):
            os.chown(file, nobody.pw_uid, nobody.pw_gid)
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
    for locked in (path, folder):
        mode = stat.S_IMODE(locked.stat().st_mode)
        locked.chmod(mode & ~0o222)
        try:
            async with Holdfast.open(f"sqlite:///{path}") as hf:
                await hf.sessions.create("lua")
            codes.append(["OPENED", ""])
        except HoldfastError as error:
            codes.append([error.code, str(error)])
        locked.chmod(mode)
    async with Holdfast.open(f"sqlite:///{path}") as hf:
        turn = await hf.executions.run(session.id, "return x + 1")
        assert turn.execution.result is not None
        return {"codes": codes, "result": turn.execution.result["json"]}


if __name__ == "__main__":
    print(json.dumps(asyncio.run({"full_disk": full_disk, "read_only": read_only}[sys.argv[1]](Path(sys.argv[2])))))
