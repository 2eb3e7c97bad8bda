"""Guests in WebAssembly: running untrusted scripts, freezing and thawing them, and limits that hold.

Begin with `Engine`. Nothing here knows of sessions, stores or the network; it imports only `holdfast.domain`.

    with Engine() as engine:
        template = engine.guest("javascript").template()
        with template.create() as sandbox:
            outcome = sandbox.evaluate("const name = await ask('Who?'); 'Hello ' + name")
            outcome = sandbox.resume({1: "Ada"})
            print(outcome.result.value)
"""

from holdfast.sandbox import jsontext
from holdfast.sandbox._cache import default_directory as cache_directory
from holdfast.sandbox._errors import (
    EngineClosed,
    ExecutionPending,
    GuestFault,
    GuestUnavailable,
    HostError,
    ImageDamaged,
    ImageError,
    ImageForeign,
    ImageTooLarge,
    ImageUnsupported,
    LibraryLoadFailed,
    NotPending,
    QueryNotOpen,
    RequestRefused,
    SandboxBusy,
    SandboxClosed,
    SandboxError,
    TemplateFailed,
    UnknownQuery,
    ValueRefused,
)
from holdfast.sandbox.guest import LANGUAGES, Engine, Guest, Language
from holdfast.sandbox.host import Host, Loader, Module, Modules
from holdfast.sandbox.image import Image, Label, compose, read_label, relabel
from holdfast.sandbox.sandbox import Pacer, Sandbox
from holdfast.sandbox.steps import (
    Abandon,
    Breached,
    Call,
    Cancelled,
    Evaluate,
    Event,
    Failed,
    Failure,
    Finished,
    Globals,
    Outcome,
    Paused,
    Query,
    Request,
    Result,
    Resume,
    RunFile,
    ScriptError,
)
from holdfast.sandbox.template import Source, Template
from holdfast.sandbox.values import BigInt, Circular, Date, ErrorValue, Map, Opaque, Set, Undefined

__all__ = [
    "LANGUAGES",
    "Abandon",
    "BigInt",
    "Breached",
    "Call",
    "Cancelled",
    "Circular",
    "Date",
    "Engine",
    "EngineClosed",
    "ErrorValue",
    "Evaluate",
    "Event",
    "ExecutionPending",
    "Failed",
    "Failure",
    "Finished",
    "Globals",
    "Guest",
    "GuestFault",
    "GuestUnavailable",
    "Host",
    "HostError",
    "Image",
    "ImageDamaged",
    "ImageError",
    "ImageForeign",
    "ImageTooLarge",
    "ImageUnsupported",
    "Label",
    "Language",
    "LibraryLoadFailed",
    "Loader",
    "Map",
    "Module",
    "Modules",
    "NotPending",
    "Opaque",
    "Outcome",
    "Pacer",
    "Paused",
    "Query",
    "QueryNotOpen",
    "Request",
    "RequestRefused",
    "Result",
    "Resume",
    "RunFile",
    "Sandbox",
    "SandboxBusy",
    "SandboxClosed",
    "SandboxError",
    "ScriptError",
    "Set",
    "Source",
    "Template",
    "TemplateFailed",
    "Undefined",
    "UnknownQuery",
    "ValueRefused",
    "cache_directory",
    "compose",
    "jsontext",
    "read_label",
    "relabel",
]
