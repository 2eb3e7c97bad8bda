"""Sessions and their history."""

from typing import Annotated, Final

from fastapi import Depends, Query
from starlette.requests import Request

from holdfast.control import TENANT, plain
from holdfast.domain import Budget, HoldfastError, InvalidValue, SessionState, StartupFailed, Worktree
from holdfast.http import _examples
from holdfast.http._answers import Json
from holdfast.http._call import READ, RUN, call_of
from holdfast.http._params import Key, Listed, SessionId
from holdfast.http._routes import Counted, Hf, Routes
from holdfast.http.models import _base
from holdfast.http.models import _sessions as models

routes: Final = Routes("sessions")

_NOT_FOUND: Final = ("SESSION_NOT_FOUND",)
_CHANGE: Final = ("SESSION_NOT_FOUND", "SESSION_BUSY", "SESSION_NOT_READY", "IDEMPOTENCY_CONFLICT")
_Number = Annotated[int, Query(ge=0, le=(1 << 53) - 1)]


def budget_of(given: models.Budget | None) -> Budget | None:
    return None if given is None else Budget.parse(given.model_dump(exclude_none=True))


def _worktree(body: models.NewSession) -> Worktree | None:
    given = body.model_fields_set & {"workspace_id", "base_commit_oid", "worktree_path"}
    if not given:
        return None
    if len(given) < 3:
        raise InvalidValue("workspace_id, base_commit_oid and worktree_path come together or not at all")
    return Worktree(body.workspace_id, body.base_commit_oid, body.worktree_path)


async def _roots(request: Request) -> tuple[str, ...] | None:
    """The folders below which a worktree must lie. Without a setting whoever may do everything may name any; scripts of others must not
    see the files that the daemon's user sees.
    """
    config, caller = request.app.state.config, call_of(request.scope).caller
    if config.worktree_roots:
        return tuple(config.worktree_roots)
    if caller is not None and caller.is_operator:
        return None
    own = str(config.data_dir / "worktrees")
    return own, f"{own}/tenants/{TENANT}"


@routes.add("GET", "/sessions", READ, list[models.Session], errors=("TEMPLATE_NOT_FOUND",), example=[_examples.SESSION])
async def list_sessions(
    hf: Hf,
    listed: Listed,
    status: Annotated[models.SessionStatus | None, Query(description="Only those in this state.")] = None,
    template_id: Annotated[_base.TemplateId | None, Query(description="Only those of this template.")] = None,
    name: Annotated[str | None, Query(description="Only those of this name.", max_length=1000)] = None,
) -> Json:
    """Sessions, newest first."""
    page = await hf.sessions.list(
        states=[] if status is None else [status], template=template_id, name=name, limit=listed.limit, after=listed.cursor
    )
    return listed.answer(page, plain.session)


@routes.add(
    "POST",
    "/sessions",
    RUN,
    models.Session,
    status=201,
    errors=(
        "TEMPLATE_NOT_FOUND",
        "FILE_NOT_FOUND",
        "TEMPLATE_INACTIVE",
        "IDEMPOTENCY_CONFLICT",
        "QUOTA_EXCEEDED",
        "WORKTREE_NOT_ALLOWED",
        "WORKTREE_NOT_FOUND",
        "LIBRARY_NOT_CACHED",
        "STARTUP_FAILED",
        "INVALID_PATH",
        "MODULE_NOT_ALLOWED",
        "LIBRARY_LOAD_FAILED",
        "TEMPLATE_FAILED",
    ),
    example=_examples.SESSION,
    extra={"body": {"template_id": _examples.TEMPLATE_ID, "name": "morning run", "meta": {"owner": "ada"}}},
)
async def create_session(
    hf: Hf, body: models.NewSession, key: Key, counted: Counted, roots: Annotated[tuple[str, ...] | None, Depends(_roots)]
) -> Json:
    """Makes a session of a template. Its startup files run now; where one fails, the session is left as `crashed`."""
    try:
        made = await hf.sessions.create(
            body.template_id,
            version=body.version,
            name=body.name,
            meta=body.meta,
            budget=budget_of(body.budget),
            worktree=_worktree(body),
            worktree_roots=roots,
            idempotency_key=key,
        )
    except HoldfastError as error:
        if "session_id" in error.details:
            counted.session_crashes.add()
        raise error.with_details(template_id=str(body.template_id)) from None
    counted.session_creates.add()
    if made.state is SessionState.CRASHED:  # by a script, whose execution tells more
        counted.session_crashes.add()
        raise StartupFailed(f"a startup file failed: {made.last_error}").with_details(
            template_id=str(made.template_id), session_id=str(made.id)
        )
    return Json(plain.session(made), 201)


@routes.add("GET", "/sessions/{session_id}", READ, models.Session, errors=_NOT_FOUND, example=_examples.SESSION)
async def get_session(hf: Hf, session_id: SessionId) -> Json:
    """One session."""
    return Json(plain.session(await hf.sessions.get(session_id)))


@routes.add(
    "POST",
    "/sessions/{session_id}/close",
    RUN,
    models.Session,
    errors=(*_NOT_FOUND, "IDEMPOTENCY_CONFLICT"),
    example=_examples.SESSION | {"status": "closed"},
)
async def close_session(hf: Hf, session_id: SessionId, key: Key) -> Json:
    """Ends a session, and what runs or waits in it. Its history stays. Closing it twice is fine."""
    return Json(plain.session(await hf.sessions.close(session_id, idempotency_key=key)))


@routes.add(
    "DELETE",
    "/sessions/{session_id}",
    RUN,
    models.Session | models.SessionDeleted,
    errors=(*_NOT_FOUND, "IDEMPOTENCY_CONFLICT"),
    example=_examples.SESSION | {"status": "closed"},
)
async def delete_session(
    hf: Hf,
    session_id: SessionId,
    key: Key,
    purge: Annotated[bool, Query(description="Remove it with all that belongs to it, instead of closing it.")] = False,
) -> Json:
    """Closes a session; with `purge` it is removed. Sessions that were forked from it stay whole."""
    if not purge:
        return Json(plain.session(await hf.sessions.close(session_id, idempotency_key=key)))
    await hf.sessions.delete(session_id, idempotency_key=key)
    return Json({"status": "ok", "session_id": str(session_id)})


@routes.add(
    "POST",
    "/sessions/{session_id}/fork",
    RUN,
    list[models.Session],
    status=201,
    errors=(*_CHANGE, "CHECKPOINT_NOT_FOUND", "QUOTA_EXCEEDED"),
    example=[_examples.SESSION | {"origin": {"session_id": _examples.OTHER_ID, "checkpoint": 1}}],
    extra={"body": {"checkpoint": 1, "count": 2, "name": "try again"}},
)
async def fork_session(hf: Hf, session_id: SessionId, body: models.ForkRequest, key: Key, counted: Counted) -> Json:
    """Makes sessions that go on from a checkpoint of this one, each on its own."""
    forks = await hf.sessions.fork_many(
        session_id, body.count or 1, body.checkpoint, name=body.name, meta=body.meta, idempotency_key=key
    )
    counted.session_creates.add(count=len(forks))
    return Json([plain.session(fork) for fork in forks], 201)


@routes.add(
    "POST",
    "/sessions/{session_id}/rewind",
    RUN,
    models.Session,
    errors=(*_CHANGE, "CHECKPOINT_NOT_FOUND"),
    example=_examples.SESSION | {"head": 1},
    extra={"body": {"checkpoint": 1}},
)
async def rewind_session(hf: Hf, session_id: SessionId, body: models.RewindRequest, key: Key) -> Json:
    """Makes an earlier checkpoint the present state; 0 is the beginning. What came after it stays in the history."""
    return Json(plain.session(await hf.sessions.rewind(session_id, body.checkpoint, idempotency_key=key)))


@routes.add(
    "GET",
    "/sessions/{session_id}/checkpoints",
    READ,
    list[models.Checkpoint],
    errors=_NOT_FOUND,
    example=[_examples.CHECKPOINT],
)
async def list_checkpoints(hf: Hf, session_id: SessionId, listed: Listed) -> Json:
    """The checkpoints of a session, in the order in which they were made."""
    return listed.part([plain.checkpoint(node) for node in await hf.sessions.checkpoints(session_id)])


@routes.add("GET", "/sessions/{session_id}/tree", READ, models.Tree, errors=_NOT_FOUND, example=_examples.TREE)
async def get_session_tree(hf: Hf, session_id: SessionId) -> Json:
    """The history of a session: each checkpoint with the one that it follows, and the sessions that were forked there."""
    return Json(plain.tree(await hf.sessions.tree(session_id)))


@routes.add(
    "GET",
    "/sessions/{session_id}/diff",
    READ,
    models.Difference,
    errors=(*_NOT_FOUND, "CHECKPOINT_NOT_FOUND", "DIFF_TOO_LARGE"),
    example={"added": {"n": {"type": "number", "preview": "2"}}, "removed": {}, "changed": {}},
)
async def diff_session(hf: Hf, session_id: SessionId, before: _Number, after: _Number | None = None) -> Json:
    """The global variables that differ between two checkpoints, by default between one and the present."""
    return Json(await hf.sessions.diff(session_id, before, after))


@routes.add(
    "GET",
    "/sessions/{session_id}/errors",
    READ,
    list[models.ErrorEntry],
    errors=_NOT_FOUND,
    example=[_examples.ERROR_ENTRY],
)
async def list_session_errors(hf: Hf, session_id: SessionId, listed: Listed) -> Json:
    """What went wrong in a session, oldest first."""
    page = await hf.sessions.errors(session_id, limit=listed.limit, after=listed.cursor)
    return listed.answer(page, plain.error_entry)


@routes.add(
    "POST",
    "/sessions/{session_id}/prune",
    RUN,
    models.Pruned,
    errors=_CHANGE,
    example={"pruned": 12, "remaining": 0},
    extra={"body": {"keep": 10}, "later": {"pruned": 500, "remaining": 9490}},
)
async def prune_session(hf: Hf, session_id: SessionId, body: models.PruneRequest, key: Key) -> Json:
    """Drops checkpoints. The present state and those that forks began at stay, and so do events.

    What takes longer than a second goes on in the background, in batches, also after a restart: then the answer is 202, and says how
    many remain.
    """
    found = await hf.sessions.prune_in_background(session_id, keep=body.keep, before=body.before, idempotency_key=key)
    return Json(found._asdict(), 202 if found.remaining else 200)


@routes.add(
    "GET",
    "/sessions/{session_id}/prune",
    READ,
    models.Pruned,
    errors=("SESSION_NOT_FOUND",),
    example={"pruned": 500, "remaining": 9490},
)
async def get_pruning(hf: Hf, session_id: SessionId) -> Json:
    """How far the pruning of a session that is under way has come. Nothing remains if none is."""
    return Json((await hf.sessions.pruning(session_id))._asdict())
