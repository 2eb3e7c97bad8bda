"""What only the runtime can say about a store: whether its guests, baked memories and images can be used, and its secrets are whole."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import zstandard

from holdfast.domain import HoldfastError, Origin, Session, SessionState, SourceFile, TemplateSpec, TemplateVersion
from holdfast.runtime._errors import KeyMismatch
from holdfast.runtime.keys import CHECK, KEY, check_of, find_key, mended, sum_name, sum_of
from holdfast.runtime.resident import check_whole, climb, records_damaged
from holdfast.runtime.shelf import Shelf
from holdfast.sandbox import LANGUAGES, Guest
from holdfast.store import Loaded, Store, StoreDamaged, is_secret
from holdfast.store.repair import Finding, Tables

_PAGE = 200
_SECRETS = (KEY, CHECK)
Packages = Callable[[TemplateSpec], Sequence[SourceFile]]


# ---- secrets -------------------------------------------------------------------------------------------------------------------------


def secret_findings(tables: Tables) -> list[Finding]:
    """Secrets that are not what was kept. One with a single damaged byte can be found again by its checksum."""
    rows = {str(name): value for name, value in tables.maintain("SELECT name, value FROM secrets")}
    kept = {name: bytes(value) for name, value in rows.items() if is_secret(value)}
    found = [_unreadable(tables, name) for name in rows.keys() - kept.keys()]
    for name, value in kept.items():
        wanted = kept.get(sum_name(name))
        if wanted is None or sum_of(value) == wanted:
            continue
        whole = mended(value, wanted)
        proven = name == KEY and CHECK in kept and check_of(value) == kept[CHECK]
        if proven or (name == CHECK and KEY in kept and check_of(kept[KEY]) == value):
            change, repair = (sum_name(name), sum_of(value)), "checksum written anew: the secret itself is whole"
        elif whole is not None:
            change, repair = (name, whole), "the damaged byte was found by the checksum"
        elif name in _SECRETS:
            found.append(Finding("secret", name, problem="damaged", repair="none: restore a backup"))
            continue
        else:
            change, repair = (sum_name(name), sum_of(value)), "taken as it is: what was signed with it before is refused"
        found.append(Finding("secret", name, problem="damaged", repair=repair, mend=_replaces(tables, *change)))
    return found


def _unreadable(tables: Tables, name: str) -> Finding:
    """A finding for a secret, or the checksum of one, that has what none has. Other secrets than the key are made anew when needed."""
    if name in _SECRETS:
        return Finding("secret", name, problem="damaged", repair="none: restore it from a backup")
    repair = "dropped: it is made anew"
    return Finding("secret", name, problem="damaged", repair=repair, mend=lambda: _drop_secret(tables, name))


def _drop_secret(tables: Tables, name: str) -> None:
    tables.maintain("DELETE FROM secrets WHERE name = %s OR name = %s", (name, sum_name(name)))


def _replaces(tables: Tables, name: str, value: bytes) -> Callable[[], object]:
    return lambda: tables.maintain("UPDATE secrets SET value = %s WHERE name = %s", (value, name))


def key_of(store: Store, given: bytes | None) -> tuple[bytes | None, list[Finding]]:
    """The key of a store, and what is wrong with it."""
    try:
        return find_key(store, given), []
    except KeyMismatch as error:
        return None, [Finding("secret", KEY, problem=str(error), repair="none: give the right key")]
    except StoreDamaged as error:
        problem = "missing" if error.details.get("missing") else "damaged"
        return None, [Finding("secret", str(error.details.get("id")), None, problem, "none: restore it from a backup")]


@dataclass(slots=True)
class Opened:
    """Which sessions have images, and whether any of them opens: if none does, the key is not theirs."""

    sessions: set[UUID] = field(default_factory=set)
    images: int = 0

    def key_findings(self) -> list[Finding]:
        """A finding in place of those of all images. The only session that has some may be damaged itself."""
        if self.images or len(self.sessions) < 2:
            return []
        problem = f"opens no image of any of {len(self.sessions)} sessions: they were sealed with another one"
        return [Finding("secret", KEY, problem=problem, repair="none: restore it from a backup")]


# ---- guests and baked memories -------------------------------------------------------------------------------------------------------


def blob_findings(store: Store, tables: Tables | None, shelf: Shelf, packages: Packages) -> list[Finding]:
    """Guests and baked memories that are missing or damaged. A guest may be in this package, a memory can be baked again."""
    found: dict[bytes, Finding] = {}
    for version in versions(store):
        for digest, what in ((version.guest, "guest"), (version.baked, "baked memory")):
            if digest in found or not digest:
                continue
            try:
                shelf.blob(digest)
            except HoldfastError:
                mend = None if tables is None else _restores(tables, shelf, version, digest, packages)
                name = f"{version.template_id}/{version.number}"
                repair = "restored" if mend is not None else "none: restore a backup"
                found[digest] = Finding(what, name, problem="missing or damaged", repair=repair, mend=mend)
    return list(found.values())


def versions(store: Store) -> Iterator[TemplateVersion]:
    """All versions of all templates that can be read."""
    after: str | None = None
    while True:
        page = store.list_templates(limit=_PAGE, after=after)
        for template in page.items:
            at: str | None = None
            while True:
                part = store.list_versions(template.id, limit=_PAGE, after=at)
                yield from part.items
                at = part.next
                if at is None:
                    break
        after = page.next
        if after is None:
            return


def _restores(
    tables: Tables, shelf: Shelf, version: TemplateVersion, digest: bytes, packages: Packages
) -> Callable[[], object] | None:
    data = _found_again(shelf, version, digest, packages)
    if data is None:
        return None
    packed = zstandard.compress(data)

    def put() -> None:
        tables.maintain("DELETE FROM blobs WHERE digest = %s", (digest,))
        tables.maintain("INSERT INTO blobs (digest, data) VALUES (%s, %s)", (digest, packed))

    return put


def _found_again(shelf: Shelf, version: TemplateVersion, digest: bytes, packages: Packages) -> bytes | None:
    """The content of a blob: the guest of this package, or the memory baked once more, if that is what it was."""
    current = {guest.digest: guest for guest in (shelf.engine.guest(language) for language in LANGUAGES)}
    if digest in current:
        return current[digest].wasm
    if digest != version.baked:
        return None
    try:
        guest = current.get(version.guest) or Guest(shelf.engine, shelf.language(version.spec), shelf.blob(version.guest))
        template = shelf.baked_with(guest, version.spec, packages(version.spec))
    except HoldfastError:
        return None
    return template.content if template.digest == digest else None


# ---- sessions ------------------------------------------------------------------------------------------------------------------------


def sessions(store: Store) -> Iterator[Session]:
    """All sessions, also those that are only placeholders."""
    after: str | None = None
    while True:
        page = store.list_sessions(limit=_PAGE, after=after)
        yield from page.items
        after = page.next
        if after is None:
            return


def session_findings(store: Store, shelf: Shelf, key: bytes, session: Session, opened: Opened | None = None) -> list[Finding]:
    """Checkpoints of a session that cannot be thawed, and whether its present can be loaded."""
    if not has_template(shelf, session):
        problem = f"its template {session.template_id}/{session.template_version} is missing or damaged"
        return [Finding("session", str(session.id), session.id, problem, "none: restore the template, or delete the session")]
    found = []
    whole = whole_checkpoints(store, shelf, key, session)
    nodes = store.list_nodes(session.id)
    if opened is not None and nodes:
        opened.sessions.add(session.id)
        opened.images += len(whole)
    for node in nodes:
        if node.number not in whole:
            name = f"{session.id}/{node.number}"
            found.append(Finding("image", name, session.id, problem="cannot be thawed", repair="left: it cannot be rewound to"))
    if session.state is SessionState.CLOSED:
        return found
    try:
        loaded = store.load(session.id)
        check_whole(loaded)
        if session.head == 0 or (session.head in whole and asks_as(store, loaded)):
            return found
        if session.head in whole:
            raise records_damaged(session.id)
        problem = f"its present state, checkpoint {session.head}, cannot be thawed"
    except HoldfastError:
        problem = "its present state cannot be loaded"
    goal = max((number for number in whole if asks_whole(store, session.id, number)), default=0)
    return [*found, Finding("session", str(session.id), session.id, problem, repair=f"rewound to checkpoint {goal}")]


def whole_checkpoints(store: Store, shelf: Shelf, key: bytes, session: Session) -> set[int]:
    """The numbers of the checkpoints of a session that can be thawed."""
    whole: set[int] = set()
    try:
        shelved = shelf.get(session.template_id, session.template_version)
    except HoldfastError:
        return whole
    for node in store.list_nodes(session.id):
        try:
            climb(store.chain(Origin(session.id, node.number)), shelved, key)
        except HoldfastError:
            continue
        whole.add(node.number)
    return whole


def has_template(shelf: Shelf, session: Session) -> bool:
    """Whether the template of a session can be used. If not, nothing can be said of its images."""
    try:
        shelf.get(session.template_id, session.template_version)
    except HoldfastError:
        return False
    return True


def asks_as(store: Store, loaded: Loaded) -> bool:
    """Whether a session's open queries are among those that the script waited for at its present checkpoint."""
    session = loaded.session
    if session.state is not SessionState.PAUSED or loaded.begun is not None:
        return True
    node = store.get_node(Origin(session.id, session.head))
    asked = {store.get_query(session.id, number).guest_id for number in node.open}
    return all(query.guest_id is None or query.guest_id in asked for query in loaded.open)


def asks_whole(store: Store, session_id: UUID, number: int) -> bool:
    """Whether what was waited for at a checkpoint can be asked once more."""
    try:
        node = store.get_node(Origin(session_id, number))
        if node.open or node.wake_at is not None:
            store.get_execution(node.execution_id)
        asked = [store.get_query(session_id, query) for query in node.open]
        return all(query.payload and (query.guest_id or 0) > 0 for query in asked)
    except HoldfastError:
        return False
