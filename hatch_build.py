"""The wheel's build hook: compiles the guests before they are packed. All of the work is in `guests/build`."""

import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class GuestsHook(BuildHookInterface[Any]):
    """Runs for wheels and for editable installs; a source distribution holds no guests."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        from guests.build.__main__ import build_shipped
        from guests.build.errors import BuildError

        try:
            build_shipped()
        except BuildError as error:
            sys.exit(f"holdfast: {error}")  # one clear line instead of a traceback
