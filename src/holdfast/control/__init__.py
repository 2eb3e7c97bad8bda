"""The use cases, and the library's face: templates, sessions, executions, queries, workflows. No transport, and no rules of transports.

Begin with `Holdfast`.
"""

from holdfast.control._policy import Permission
from holdfast.control.events import Events, Feed, Told
from holdfast.control.executions import Executions
from holdfast.control.holdfast import Holdfast
from holdfast.control.queries import Queries
from holdfast.control.sessions import Sessions
from holdfast.control.templates import Templates

__all__ = ["Events", "Executions", "Feed", "Holdfast", "Permission", "Queries", "Sessions", "Templates", "Told"]
