"""What can be wrong with a package."""

from holdfast.domain import Conflict, InvalidValue, NotFound


class PackageNotFound(NotFound):
    """There is no such strategy package."""

    code = "PACKAGE_NOT_FOUND"


class PackageInvalid(InvalidValue):
    """This is not a strategy package, or cannot be used as one."""

    code = "PACKAGE_INVALID"


class PackageChanged(Conflict):
    """The package is not what was locked. Look at it, and add it again."""

    code = "PACKAGE_CHANGED"


class PackageExists(Conflict):
    """There is a package of this name."""

    code = "PACKAGE_EXISTS"
