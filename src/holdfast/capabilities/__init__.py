"""What sessions may reach beyond themselves: files of their worktree, and native modules."""

from holdfast.capabilities._glue import module_for
from holdfast.capabilities._meter import Called, Meter, is_refusal
from holdfast.capabilities._secrets import masked_config, shown_config
from holdfast.capabilities._shared import Shared
from holdfast.capabilities.catalogue import check_module, describe, granted, host_grants, modules
from holdfast.capabilities.files.protected import protect
from holdfast.capabilities.files.resolver import Resolver, SessionModules
from holdfast.capabilities.files.worktree import EmptyPath, WorktreeFile, parse_path, read_file, resolve_root
from holdfast.capabilities.native import Grant, NativeModule, NativeModules, Scope, Waiting, effect, waits
from holdfast.capabilities.state.overlay import Overlay

__all__ = [
    "Called",
    "EmptyPath",
    "Grant",
    "Meter",
    "NativeModule",
    "NativeModules",
    "Overlay",
    "Resolver",
    "Scope",
    "SessionModules",
    "Shared",
    "Waiting",
    "WorktreeFile",
    "check_module",
    "describe",
    "effect",
    "granted",
    "host_grants",
    "is_refusal",
    "masked_config",
    "module_for",
    "modules",
    "parse_path",
    "protect",
    "read_file",
    "resolve_root",
    "shown_config",
    "waits",
]
