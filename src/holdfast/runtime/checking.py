"""What only the runtime can say about a store: whether its guests, baked memories and images can be used, and its secrets are whole."""

from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

import zstandard

from holdfast.domain import HoldfastError, Origin, Session, SessionState, SourceFile, TemplateSpec, TemplateVersion
from holdfast.runtime._errors import KeyMismatch
from holdfast.runtime.keys import CHECK, KEY, check_of, mended, settle_key, sum_name, sum_of
from holdfast.runtime.resident import check_whole, climb
from holdfast.runtime.shelf import Shelf
from holdfast.sandbox import LANGUAGES, Guest
from holdfast.store import Store, StoreDamaged
from holdfast.store.repair import Finding, Tables

_PAGE = 200
_SECRETS = (KEY, CHECK)
Packages = Callable[[TemplateSpec], Sequence[SourceFile]]


# ---- secrets -------------------------------------------------------------------------------------------------------------------------


def secret_findings(tables: Tables) -> list[Finding]:
    """Secrets that are not what was kept. One with a single damaged byte can be found again by its checksum."""
    kept = {str(name): bytes(value) for name, value in tables.maintain("SELECT name, value FROM secrets")}
    found = []
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


def _replaces(tables: Tables, name: str, value: bytes) -> Callable[[], object]:
    return lambda: tables.maintain("UPDATE secrets SET value = %s WHERE name = %s", (value, name))


def key_of(store: Store, given: bytes | None) -> tuple[bytes | None, list[Finding]]:
    """The key of a store, and what is wrong with it."""
    try:
        return settle_key(store, given), []
    except KeyMismatch as error:
        return None, [Finding("secret", KEY, problem=str(error), repair="none: give the right key")]
    except StoreDamaged as error:
        return None, [Finding("secret", str(error.details.get("id")), problem="damaged", repair="none: restore a backup")]


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


def session_findings(store: Store, shelf: Shelf, key: bytes, session: Session) -> list[Finding]:
    """Checkpoints of a session that cannot be thawed, and whether its present can be loaded."""
    found = []
    whole = whole_checkpoints(store, shelf, key, session)
    for node in store.list_nodes(session.id):
        if node.number not in whole:
            name = f"{session.id}/{node.number}"
            found.append(Finding("image", name, session.id, problem="cannot be thawed", repair="left: it cannot be rewound to"))
    if session.state is SessionState.CLOSED:
        return found
    try:
        check_whole(store.load(session.id))
        if session.head == 0 or session.head in whole:
            return found
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
