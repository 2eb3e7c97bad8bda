"""A native module of one's own: tickets, which are files in a folder that the template's config names."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from holdfast import EffectKind, HostError
from holdfast.capabilities import NativeModule, effect, waits
from holdfast.domain import InvalidValue


@dataclass(frozen=True, slots=True)
class TicketsConfig:
    """Every field has a default. What is wrong with a value is said with the field's name first."""

    folder: str = ""
    most_open: int = 100

    def __post_init__(self) -> None:
        if self.folder and not Path(self.folder).is_absolute():
            raise InvalidValue("folder must be an absolute path")
        if not 1 <= self.most_open <= 10_000:
            raise InvalidValue("most_open must be from 1 to 10000")


class Tickets(NativeModule):
    """Scripts see its functions by these names. Annotations are what their arguments are checked against."""

    name: ClassVar[str] = "tickets"
    description: ClassVar[str] = "Opens tickets, finds them, and waits until one is closed."
    config_type: ClassVar[type[Any]] = TicketsConfig

    # Two tickets would be one too many: it is noted before it happens, and is never done a second time.
    @effect(EffectKind.ONCE)
    def open(self, title: str, urgent: bool = False) -> int:
        folder = self._folder()
        number = len(list(folder.iterdir())) + 1
        if number > self.config.most_open:
            raise HostError(f"there are {self.config.most_open} tickets already", code="TICKETS_NOT_ALLOWED")
        (folder / f"{number}.json").write_text(json.dumps({"title": title, "urgent": urgent}))
        return number

    # It changes nothing, so after a crash it is simply called again.
    @effect(EffectKind.READ)
    def find(self, word: str = "") -> list[dict[str, Any]]:
        tickets = [json.loads(file.read_text()) for file in sorted(self._folder().iterdir())]
        return [ticket for ticket in tickets if word in ticket["title"]]

    # It takes long: the script pauses, durably, and goes on with what this returns.
    @waits(once=False)
    def closed(self, number: int) -> str:
        file = self._folder() / f"{number}.json"
        while self.scope.time_left() > 0 and not self.scope.is_stopped():
            if "answer" in (ticket := json.loads(file.read_text())):
                return str(ticket["answer"])
            time.sleep(0.02)
        raise HostError(f"ticket {number} is still open", code="TICKET_OPEN")

    def _folder(self) -> Path:
        if not self.config.folder:
            raise HostError("the template names no folder for tickets", code="TICKETS_NOT_ALLOWED")
        return Path(self.config.folder)
