"""Durable stops in other systems, each in its cheapest form, on the same disk."""

import os
import sqlite3
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import pydantic_monty


class BareCommit:
    """One row of so many bytes, committed and synced: the floor under every durable pause."""

    def __init__(self, folder: Path, size: int) -> None:
        self._connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, data BLOB)")
        self._row = os.urandom(size)

    def __call__(self) -> None:
        self._connection.execute("INSERT INTO rows (data) VALUES (?)", (self._row,))

    def close(self) -> None:
        self._connection.close()


class _State(TypedDict):
    count: int
    last: str


def langgraph_pause(folder: Path) -> Callable[[], None]:
    """LangGraph with its SQLite saver: resume a node that waits in `interrupt`, which comes to the next interrupt."""
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import START, StateGraph
    from langgraph.types import Command, interrupt

    def ask(state: _State) -> dict[str, Any]:
        return {"last": interrupt("next"), "count": state["count"] + 1}

    graph = StateGraph(_State)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", "ask")
    saver = SqliteSaver(sqlite3.connect(folder / "langgraph.db", check_same_thread=False))
    saver.setup()
    app = graph.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 1_000_000}
    app.invoke({"count": 0, "last": ""}, config)

    def pause() -> None:
        app.invoke(Command(resume="answer"), config)

    return pause


def dbos_step_seconds(folder: Path, times: int) -> float:
    """DBOS on SQLite: the median of one durable step of a workflow. Its `recv` polls, so waiting for an answer would take longer."""
    from dbos import DBOS

    DBOS(
        config={
            "name": "benchmark",
            "system_database_url": f"sqlite:///{folder / 'dbos.db'}",
            "log_level": "ERROR",
        }
    )

    @DBOS.step()  # type: ignore[untyped-decorator]
    def step(number: int) -> str:
        return "answer"

    @DBOS.workflow()  # type: ignore[untyped-decorator]
    def workflow(count: int) -> list[float]:
        took = []
        for number in range(count):
            begun = time.perf_counter()
            step(number)
            took.append(time.perf_counter() - begun)
        return took

    DBOS.launch()
    try:
        taken: list[float] = workflow(times)
        return statistics.median(taken)
    finally:
        DBOS.destroy()


def monty_pause_seconds(folder: Path, times: int) -> float:
    """Monty: resume to the next pause, dump the state, write it to a file and sync it."""
    source = "while True:\n    llm('next')\n"
    taken = []
    with pydantic_monty.Monty() as pool, pool.checkout(limits={"max_suspensions": 10**9}) as worker:
        progress: Any = worker.feed_start(source, external_lookup={"llm": None})
        with (folder / "monty").open("wb", buffering=0) as file:
            for _ in range(times):
                begun = time.perf_counter()
                progress = progress.resume({"return_value": "answer"})
                file.seek(0)
                file.write(progress.dump())
                os.fsync(file.fileno())
                taken.append(time.perf_counter() - begun)
    return statistics.median(taken)
