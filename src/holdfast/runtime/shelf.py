"""Templates ready for use: baked once, kept in the store, and in memory while they are needed.

A session thaws over exactly the bytes that it was frozen over. So the store keeps the guest and the baked memory of every version, by
digest: a newer Holdfast, whose own guests are others, still thaws every old session.

A template in memory holds a descriptor. It lives as long as a session's image or somebody's `Shelved` refers to it; the shelf itself
keeps only those that were used last.
"""

import hashlib
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import PurePosixPath
from typing import Any, Final, Literal, NamedTuple, NoReturn
from uuid import UUID
from weakref import WeakValueDictionary

import zstandard

from holdfast.capabilities import Grant, Meter, Resolver, Shared, granted, host_grants, module_for, modules
from holdfast.domain import (
    DEFAULT_TENANT,
    HoldfastError,
    InvalidValue,
    LibraryNotCached,
    Limits,
    SourceFile,
    TemplateSpec,
    TemplateVersion,
)
from holdfast.libraries import stubs
from holdfast.runtime._errors import GuestMissing
from holdfast.runtime.baking import bake
from holdfast.runtime.effects import Function, Tool
from holdfast.sandbox import LANGUAGES, Engine, Guest, HostError, Language, Module, Modules, Source, Template
from holdfast.store import Store
from holdfast.strategies import PackagePath, SessionPackages

ModuleKind = Literal["module", "commonjs", "script", "json"]

_KINDS: Final[dict[str, ModuleKind]] = {
    ".js": "module",
    ".mjs": "module",
    ".cjs": "commonjs",
    ".json": "json",
    ".lua": "script",
}
_SCHEME: Final = "holdfast:"
_LARGEST: Final = 1 << 30
_LEVEL: Final = 3
"""Of compression. At 9 it takes four times as long, most of the time in which a template is made, and saves a tenth."""
_KEPT: Final = 64
_KEPT_BAKED: Final = 4


class Startup(NamedTuple):
    """A file that each session runs as it starts. Without a text it is read from the session's worktree when its turn has come."""

    path: str
    text: str | None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Shelved:
    """A version of a template, with what its sessions run on and may reach."""

    version: TemplateVersion
    template: Template
    functions: Mapping[str, Function]
    tools: Mapping[str, Tool]
    modules: Resolver
    native: tuple[Grant, ...]
    """Native modules, of which each session has its own."""
    waiting: frozenset[str]
    """Functions of those modules that scripts wait for, as `module.name`."""
    meter: Meter
    shared: Shared
    limits: Limits
    """Those of the version, none above the ceiling of this process."""

    @property
    def startup(self) -> list[Startup]:
        """The files that each session runs as it starts, in their order. No two have the same path."""
        spec = self.version.spec
        own = [Startup(file.filename, file.text) for file in spec.startup if not file.in_template]
        return own + [Startup(file.path, None) for file in sorted(spec.files, key=attrgetter("order_index"))]


class Shelf:
    """All versions that are in use."""

    def __init__(
        self,
        store: Store,
        functions: Mapping[str, Function],
        tools: Mapping[str, Tool],
        packages: PackagePath | None = None,
        ceiling: Mapping[str, int] | None = None,
    ) -> None:
        self.ceiling = dict(ceiling or {})
        """The highest values of limits, whatever a template allows."""
        self.engine = Engine()
        self.packages = packages or PackagePath([])
        self.meter = Meter()
        """Of all calls of native modules."""
        self.shared = Shared()
        """What native modules of all sessions share."""
        self._store, self._functions, self._tools = store, functions, tools
        self._making = threading.Lock()
        """Held while something is compiled or read, so that it is done once."""
        self._guests: dict[bytes, Guest] = {}
        self._current: dict[str, Guest] = {}
        self._templates: WeakValueDictionary[tuple[bytes, bytes], Template] = WeakValueDictionary()
        self._baked: deque[Template] = deque(maxlen=_KEPT_BAKED)
        """The newest, for the sessions that will soon be made of them."""
        self._shelved: WeakValueDictionary[tuple[UUID, int], Shelved] = WeakValueDictionary()
        self._kept: OrderedDict[tuple[UUID, int], Shelved] = OrderedDict()
        """Those that were used last, the latest at the end."""
        self._keeping = threading.Lock()

    def bake(self, spec: TemplateSpec, packages: Sequence[SourceFile] = ()) -> tuple[bytes, bytes, frozenset[str]]:
        """Makes what a version needs and keeps it in the store. Gives the digests of the guest and of the baked memory, and the names of
        the startup files that are part of it.

        `packages` are the texts of the libraries that it names, which come before those that it has itself.
        """
        guest, spec = self._newest(spec), replace(spec, limits=spec.limits.within(self.ceiling))
        libraries = [Source(file.filename, file.text) for file in (*packages, *spec.libraries)]
        template, startup = bake(guest, spec, libraries, _modules(spec, {}, ()))
        for digest, data in ((guest.digest, guest.wasm), (template.digest, template.content)):
            if self._store.get_blob(digest) is None:
                self._store.put_blob(digest, zstandard.compress(data, _LEVEL))
        with self._making:
            self._baked.append(self._templates.setdefault((guest.digest, template.digest), template))
        return guest.digest, template.digest, startup

    def baked_with(self, guest: Guest, spec: TemplateSpec, packages: Sequence[SourceFile] = ()) -> Template:
        """A template baked with a certain guest, as `bake` does, and kept nowhere."""
        libraries = [Source(file.filename, file.text) for file in (*packages, *spec.libraries)]
        return bake(guest, spec, libraries, _modules(spec, {}, ()))[0]

    @staticmethod
    def language(spec: TemplateSpec) -> Language:
        """The language of a template. `InvalidValue` if there is none of this name."""
        return _language(spec)

    def is_current(self, version: TemplateVersion) -> bool:
        """Whether a version was baked, with the guest that it would be baked with now."""
        return version.guest == self._newest(version.spec).digest

    def _newest(self, spec: TemplateSpec) -> Guest:
        language = _language(spec)
        with self._making:
            guest = self._current.get(language) or self.engine.guest(language)
            self._current[language] = self._guests[guest.digest] = guest
        return guest

    def get(self, template_id: UUID, number: int) -> Shelved:
        """A version, ready for use. If the store lacks what it was made with, its template raises `GuestMissing` when it is used: so
        its sessions can still be looked at, closed and deleted.
        """
        found = self._shelved.get((template_id, number)) or self._made(template_id, number)
        if isinstance(found.template, _Missing):
            return found  # not kept: somebody may bring it back
        with self._keeping:
            found = self._shelved.setdefault((template_id, number), found)
            self._kept[template_id, number] = found
            self._kept.move_to_end((template_id, number))
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def _made(self, template_id: UUID, number: int) -> Shelved:
        version = self._store.get_version(template_id, number)
        try:
            with self._making:
                template = self._template(version)
        except (GuestMissing, LibraryNotCached) as error:
            template = _Missing(error)
        spec = self._confined(version)
        functions = {name: function for name, function in self._functions.items() if spec.grants("function", name)}
        tools = {name: tool for name, tool in self._tools.items() if spec.grants("tool", name)}
        native = granted(spec)
        waiting = frozenset(f"{grant.module.name}.{name}" for grant in native for name in grant.module.waiting())
        resolver = Resolver(spec, _modules(spec, functions, native), SessionPackages.of(spec, self.packages))
        limits = spec.limits.within(self.ceiling)
        return Shelved(version, template, functions, tools, resolver, native, waiting, self.meter, self.shared, limits)

    def _confined(self, version: TemplateVersion) -> TemplateSpec:
        """What a version may grant: of another tenant than the default nothing that reaches the host, unless an operator granted it."""
        denied = {one.id for one, _ in host_grants(version.spec)}
        if not denied or self._store.get_template(version.template_id).tenant == DEFAULT_TENANT:
            return version.spec
        kept = tuple(one._replace(enabled=one.enabled and one.id not in denied) for one in version.spec.capabilities)
        return replace(version.spec, capabilities=kept)

    def peek(self, template_id: UUID, number: int) -> Shelved | None:
        """A version if it is at hand: at no cost, for the event loop."""
        return self._shelved.get((template_id, number))

    def forget(self, template_id: UUID) -> None:
        """A template was deleted."""
        with self._keeping:
            for key in [key for key in self._kept if key[0] == template_id]:
                del self._kept[key]
            for key in [key for key in self._shelved if key[0] == template_id]:
                self._shelved.pop(key, None)

    def close(self) -> None:
        self.shared.close()
        self._kept.clear()
        self._baked.clear()
        self._guests.clear()
        self._current.clear()
        self.engine.close()

    def _template(self, version: TemplateVersion) -> Template:
        if not version.baked:
            raise LibraryNotCached("this session could not start: a library of its template was not in the cache")
        known = self._templates.get((version.guest, version.baked))
        if known is None:
            guest = self._guests.get(version.guest)
            if guest is None:
                language = _language(version.spec)
                guest = self._guests[version.guest] = Guest(self.engine, language, self.blob(version.guest))
            known = self._templates[version.guest, version.baked] = Template(guest, self.blob(version.baked))
        return known

    def blob(self, digest: bytes) -> bytes:
        packed = self._store.get_blob(digest)
        if packed is None:
            raise GuestMissing().with_details(kind="blob", id=digest.hex())
        try:
            data = zstandard.decompress(packed, max_output_size=_LARGEST)
        except zstandard.ZstdError:
            data = b""
        if hashlib.sha256(data).digest() != digest:
            raise GuestMissing().with_details(kind="blob", id=digest.hex())
        return data


class _Missing(Template):
    """A template that cannot be used."""

    def __init__(self, error: HoldfastError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> NoReturn:
        raise self._error

    def create(self, **options: Any) -> NoReturn:
        raise self._error

    def thaw(self, *given: Any, **options: Any) -> NoReturn:
        raise self._error

    def open(self, *given: Any, **options: Any) -> NoReturn:
        raise self._error


def _language(spec: TemplateSpec) -> Language:
    for language in LANGUAGES:
        if spec.language == language:
            return language
    raise InvalidValue(f"there is no language {repr(spec.language)[:40]}; there are {', '.join(LANGUAGES)}")


def _modules(spec: TemplateSpec, functions: Mapping[str, Function], native: tuple[Grant, ...]) -> Modules:
    """The modules of a template: its files, one for each group of functions that it grants, and native ones, which have two names."""
    baked = stubs(spec.packages) if spec.language == "javascript" else {}
    found = {name: Module("commonjs", text) for name, text in baked.items()}  # whatever else has this name comes first
    for file in spec.modules:
        module = Module(_kind(file.filename, spec), file.text)
        found[file.filename] = module
        if module.kind == "script":  # as Lua names them: require("folder.name")
            found[file.filename.removesuffix(".lua").replace("/", ".")] = module
    groups: dict[str, list[str]] = {}
    for name in functions:
        group, dot, member = name.rpartition(".")
        if dot:
            groups.setdefault(group, []).append(member)
    found |= {group: Module("functions", names=tuple(names)) for group, names in groups.items()}
    found |= {grant.module.name: module_for(grant.module, spec.language) for grant in native}
    return _Loader(found)


class _Loader(Modules):
    """A loader that knows native modules also as `holdfast:name`, and says which of them are not granted."""

    def resolve(self, specifier: str, referrer: str, kind: str) -> str:
        name = specifier.removeprefix(_SCHEME)
        try:
            return super().resolve(name, referrer, kind)
        except HostError:
            if name in modules():
                message = f"Invalid module: there is no module {specifier!r}: the template does not grant it"
                raise HostError(message, code="MODULE_NOT_GRANTED") from None
            raise


def _kind(filename: str, spec: TemplateSpec) -> ModuleKind:
    return _KINDS.get(PurePosixPath(filename).suffix, "script" if spec.language == "lua" else "module")
