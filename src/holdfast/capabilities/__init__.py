"""What sessions may reach beyond themselves: files of their worktree, and native modules."""

from holdfast.capabilities.catalogue import MODULES, check_module
from holdfast.capabilities.worktree import EmptyPath, WorktreeFile, parse_path, read_file, resolve_root

__all__ = ["MODULES", "EmptyPath", "WorktreeFile", "check_module", "parse_path", "read_file", "resolve_root"]
