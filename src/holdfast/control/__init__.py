"""The use cases, and the library's face: templates, sessions, executions, queries, strategies, transcripts, workflows.

No transport, and no rules of transports.

Begin with `Holdfast`.
"""

from holdfast.control._family import Asked
from holdfast.control._policy import Permission
from holdfast.control._worktree_roots import TENANT
from holdfast.control.answering import Answerer, PromptUnknown, Recorded, Response
from holdfast.control.audit import Audit, AuditWriter
from holdfast.control.events import Events, Feed, Told
from holdfast.control.executions import Executions
from holdfast.control.holdfast import Holdfast
from holdfast.control.queries import Queries
from holdfast.control.scoped import Scoped
from holdfast.control.sessions import Sessions
from holdfast.control.strategies import Strategies
from holdfast.control.templates import Templates
from holdfast.control.transcripts import Transcripts

__all__ = [
    "TENANT",
    "Answerer",
    "Asked",
    "Audit",
    "AuditWriter",
    "Events",
    "Executions",
    "Feed",
    "Holdfast",
    "Permission",
    "PromptUnknown",
    "Queries",
    "Recorded",
    "Response",
    "Scoped",
    "Sessions",
    "Strategies",
    "Templates",
    "Told",
    "Transcripts",
]
