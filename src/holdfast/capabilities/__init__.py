"""What sessions may reach beyond themselves: files of their worktree, and native modules."""

from holdfast.capabilities.catalogue import MODULES, check_config, check_module, granted
from holdfast.capabilities.native import Grant, NativeModule, NativeModules, Scope, effect
from holdfast.capabilities.worktree import EmptyPath, WorktreeFile, parse_path, read_file, resolve_root

__all__ = [
    "MODULES",
    "EmptyPath",
    "Grant",
    "NativeModule",
    "NativeModules",
    "Scope",
    "WorktreeFile",
    "check_config",
    "check_module",
    "effect",
    "granted",
    "parse_path",
    "read_file",
    "resolve_root",
]
