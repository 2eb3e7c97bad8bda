"""`holdfast mcp`: the server for one host, over pipes."""

import asyncio
import gc
import os
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.control import Holdfast


def serve_stdio(opening: "Callable[[], Holdfast]", *, root: str, state_s: float) -> None:
    """Serves the Holdfast that `opening` gives to whoever is at the other end of stdin and stdout, until that ends, or a signal
    that ends programs comes.

    What runs then is committed, or goes on when the store is opened again. `root` is the folder of scripts that are named as files;
    `state_s` is how long the host may take to answer what it is asked in the middle of a call.
    """
    pipes = _take_pipes()
    gc.disable()  # importing makes many objects that stay, and nothing for the collector, which would look a hundred times
    from holdfast.mcp import _pipes, _server  # noqa: F401

    gc.freeze()  # nor does it ever have to look at these again
    gc.enable()
    if sys.platform == "win32":
        factory = None
    else:
        from uvloop import new_event_loop as factory
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_serve(opening, pipes, root, state_s))


async def _serve(opening: "Callable[[], Holdfast]", pipes: Any, root: str, state_s: float) -> None:
    from holdfast.daemon._signals import handled
    from holdfast.mcp._pipes import streams
    from holdfast.mcp._server import serving_of

    stopping = asyncio.Event()
    with handled(dict.fromkeys(("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK"), stopping.set)):
        async with opening() as hf:
            served = await serving_of(hf, state_s=state_s, root=root)
            async with streams(*pipes) as (reading, writing):
                options = served.server.create_initialization_options()
                serving = asyncio.create_task(served.server.run(reading, writing, options))
                stopped = asyncio.create_task(stopping.wait())
                await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
                serving.cancel()  # which does nothing if it has ended
                stopped.cancel()
                await asyncio.wait([serving, stopped])
                if not serving.cancelled():
                    serving.result()
        await served.under_way.close()


def _take_pipes() -> tuple[BinaryIO, int]:
    """stdin and stdout for us alone: what anybody prints from now on goes to stderr, and whoever reads stdin finds nothing.

    They stay open for as long as the process lives: a thread may wait for one to the end.
    """
    reading, writing = os.dup(0), os.dup(1)  # which no child inherits
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # there is no stderr
        os.dup2(nowhere, 1)
    os.close(nowhere)
    return open(reading, "rb", closefd=False), writing
