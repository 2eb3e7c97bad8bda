"""Strategy packages: where they are, what is in them, how they come there, and how scripts get at them.

`packages` finds them, `content` reads one, `lock` keeps what they must be; `loading` is what sessions see of them, `meta` and `catalogue`
what people do. `adding`, `upkeep` and `scaffold` change what is there. `bundled` has ours. Nothing here knows of runs, stores or worktrees.
"""

from holdfast.strategies._errors import PackageChanged, PackageExists, PackageInvalid, PackageNotFound
from holdfast.strategies.catalogue import Catalogue
from holdfast.strategies.loading import SessionPackages
from holdfast.strategies.names import is_name
from holdfast.strategies.packages import Folder, Listed, Package, PackagePath, find_project, project_folder, user_folder

__all__ = [
    "Catalogue",
    "Folder",
    "Listed",
    "Package",
    "PackageChanged",
    "PackageExists",
    "PackageInvalid",
    "PackageNotFound",
    "PackagePath",
    "SessionPackages",
    "find_project",
    "is_name",
    "project_folder",
    "user_folder",
]
