"""One daemon for all of these tests, and the things that most of them begin with."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import httpx2
import pytest

from tests.daemon import Daemon

LODASH = "lodash-4.17.21"


@pytest.fixture(scope="package")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("daemon")).start()
    yield daemon
    daemon.stop()


@pytest.fixture(scope="package")
def api(daemon: Daemon) -> Iterator[httpx2.Client]:
    with daemon.client() as client:
        yield client


class Make(Protocol):
    def __call__(self, **body: Any) -> dict[str, Any]: ...


@pytest.fixture
def template(api: httpx2.Client) -> dict[str, Any]:
    """A new template."""
    return ok(api.post("/templates", json={"name": f"template {uuid4()}"}), 201)


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    folder = tmp_path / "worktree"
    folder.mkdir()
    return folder


@pytest.fixture
def create(api: httpx2.Client, template: dict[str, Any], worktree: Path) -> Make:
    """Makes sessions of the template, in the worktree."""

    def make(**body: Any) -> dict[str, Any]:
        return ok(api.post("/sessions", json=in_worktree(template, worktree) | body), 201)

    return make


def in_worktree(template: dict[str, Any], worktree: Path) -> dict[str, Any]:
    """What a session is asked for with, as vm-system has it."""
    return {
        "template_id": template["id"],
        "workspace_id": "workspace",
        "base_commit_oid": "deadbeef",
        "worktree_path": str(worktree),
    }


def ok(response: httpx2.Response, status: int = 200) -> Any:
    """The body of an answer that has this status."""
    assert response.status_code == status, response.text
    return response.json()


def refused(response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """The error of an answer that has this status and code."""
    assert response.status_code == status, response.text
    body = response.json()
    assert body.keys() == {"error"}
    error: dict[str, Any] = body["error"]
    assert error["code"] == code
    assert error["message"]
    return error


def repl(api: httpx2.Client, session: dict[str, Any], source: str) -> dict[str, Any]:
    """The execution of a snippet."""
    execution: dict[str, Any] = ok(api.post("/executions/repl", json={"session_id": session["id"], "input": source}), 201)
    return execution


def run_file(api: httpx2.Client, session: dict[str, Any], path: str, **body: Any) -> dict[str, Any]:
    """The execution of a file of the worktree."""
    given = {"session_id": session["id"], "path": path} | body
    execution: dict[str, Any] = ok(api.post("/executions/run-file", json=given), 201)
    return execution


def events(api: httpx2.Client, execution: dict[str, Any], **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ok(api.get(f"/executions/{execution['id']}/events", params=query))
    return found
