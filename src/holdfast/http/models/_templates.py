"""Templates and their parts."""

from typing import Annotated, Literal

from pydantic import Field

from holdfast.http.models._base import WHOLE, Given, Moment, Name, Number, Object, Ok, Text, Told

Engine = Literal["javascript", "lua"]
_Limit = Annotated[int, Field(ge=0, le=0xFFFFFFFF), WHOLE]


class LimitsGiven(Given):
    """Some limits. Zero means no limit, except for memory and the stack."""

    cpu_ms: _Limit | None = None
    wall_ms: _Limit | None = None
    mem_mb: Annotated[int, Field(ge=4, le=4095), WHOLE] | None = None
    stack_kb: Annotated[int, Field(ge=16, le=1536), WHOLE] | None = None
    max_events: _Limit | None = None
    max_output_kb: Annotated[int, Field(ge=0, le=0xFFFFFFFF // 1024), WHOLE] | None = None
    max_suspensions: _Limit | None = None
    max_cpu_s_per_hour: _Limit | None = None
    max_steps_per_hour: _Limit | None = None
    max_events_per_hour: _Limit | None = None
    max_mb_per_hour: _Limit | None = None
    max_execution_cpu_s: _Limit | None = None
    max_execution_steps: _Limit | None = None
    max_execution_events: _Limit | None = None
    max_execution_mb: _Limit | None = None
    max_session_cpu_s: _Limit | None = None
    max_session_steps: _Limit | None = None
    max_session_events: _Limit | None = None
    max_session_mb: _Limit | None = None


_Word = Annotated[str, Field(min_length=1, max_length=200)]
_Extension = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^\.")]


class ResolverGiven(Given):
    """Where imports are looked for."""

    roots: Annotated[list[_Word], Field(min_length=1, max_length=100)] | None = None
    extensions: Annotated[list[_Extension], Field(min_length=1, max_length=100)] | None = None
    allow_absolute_repo_imports: bool | None = None


class RuntimeGiven(Given):
    """How scripts are run."""

    esm: bool | None = None
    strict: bool | None = None
    console: bool | None = None


class NewTemplate(Given):
    """A template to be made."""

    name: Name
    engine: Engine | None = None
    limits: LimitsGiven | None = None


class SettingsChange(Given):
    """What a template's settings shall be. What is left out stays."""

    limits: LimitsGiven | None = None
    resolver: ResolverGiven | None = None
    runtime: RuntimeGiven | None = None


class TemplateChange(SettingsChange):
    """What a template shall be. What is left out stays."""

    name: Name | None = None
    is_active: bool | None = None


class CloneRequest(Given):
    name: Name


class NewCapability(Given):
    """A capability that grants something, or denies it if it is not enabled."""

    kind: Name = Field(description="`module`, `function`, `tool` or `packages`.")
    name: Name
    enabled: bool | None = None
    config: Object | None = None


class NamedPart(Given):
    """A module or a library, by name."""

    name: Text


class NewStartupFile(Given):
    """A file of the worktree that each session runs as it starts."""

    path: Text
    order_index: Annotated[int, Field(gt=-(1 << 31), lt=1 << 31), WHOLE] | None = None
    mode: str | None = Field(default=None, description="There is only `eval`.", examples=["eval"])


# ---- answers -----------------------------------------------------------------------------------------------------------------------


class Template(Told):
    id: str = Field(json_schema_extra={"format": "uuid"})
    name: str
    engine: Engine
    is_active: bool
    version: Number
    exposed_modules: list[str]
    libraries: list[str]
    created_at: Moment
    updated_at: Moment
    damaged: bool = Field(description="Whether its record cannot be read: then only its id, name and times are what they were.")


class Limits(Told):
    cpu_ms: int
    wall_ms: int
    mem_mb: int
    stack_kb: int
    max_events: int
    max_output_kb: int
    max_suspensions: int
    max_cpu_s_per_hour: int
    max_steps_per_hour: int
    max_events_per_hour: int
    max_mb_per_hour: int
    max_execution_cpu_s: int
    max_execution_steps: int
    max_execution_events: int
    max_execution_mb: int
    max_session_cpu_s: int
    max_session_steps: int
    max_session_events: int
    max_session_mb: int


class Resolver(Told):
    roots: list[str]
    extensions: list[str]
    allow_absolute_repo_imports: bool


class Runtime(Told):
    esm: bool
    strict: bool
    console: bool


class Settings(Told):
    template_id: str
    limits: Limits
    resolver: Resolver
    runtime: Runtime


class Capability(Told):
    id: str
    template_id: str
    kind: str
    name: str
    enabled: bool
    config: Object


class StartupFile(Told):
    id: str
    template_id: str
    path: str
    order_index: int
    mode: str


class Permission(Told):
    """What sessions may reach, or may not, and why. `config` is what holds, with secrets hidden."""

    kind: str
    name: str
    granted: bool
    reason: str
    description: str
    functions: list[str]
    config: Object


class TemplateDetail(Told):
    template: Template
    settings: Settings
    capabilities: list[Capability]
    startup_files: list[StartupFile]
    policy: list[Permission]


class Sources(Told):
    """The names of files that are part of the template itself."""

    libraries: list[str]
    modules: list[str]
    startup: list[str]


class VersionSpec(Told):
    engine: Engine
    is_active: bool
    exposed_modules: list[str]
    libraries: list[str]
    capabilities: list[Capability]
    startup_files: list[StartupFile]
    sources: Sources
    limits: Limits
    resolver: Resolver
    runtime: Runtime


class Version(Told):
    template_id: str
    number: Number
    spec: VersionSpec
    created_at: Moment


class TemplateDeleted(Told):
    status: Ok
    template_id: str


class PartNamed(Told):
    template_id: str
    name: str


class PartRemoved(Told):
    status: Ok
    template_id: str
    name: str


class PartIdRemoved(Told):
    status: Ok
    template_id: str
    id: str


# ---- the catalogue -----------------------------------------------------------------------------------------------------------------


class Language(Told):
    """A language that templates may have."""

    id: Engine
    name: str
    version: str
    extensions: list[str]
    description: str


class Module(Told):
    """A native module that templates may expose."""

    id: str
    name: str
    kind: str
    description: str
    functions: list[str]
    config: Object


class Library(Told):
    """A library that templates may load."""

    id: str
    name: str
    version: str
    description: str
    source: str
    type: str
    config: Object
