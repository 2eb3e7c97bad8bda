"""The access log: a line for each request. The routes that are called all the time have one only where everything is logged."""

import logging
from typing import Final

from holdfast.daemon import log_request
from holdfast.http._call import Call

_log: Final = logging.getLogger("holdfast.access")


class AccessLog:
    """Logs a request when it is done."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted

    def __call__(self, call: Call, seconds: float) -> None:
        if not self._wanted or not _log.isEnabledFor(logging.DEBUG if call.hot else logging.INFO):
            return
        log_request(
            request_id=call.request_id,
            method=call.method,
            route=call.route,
            status=call.status,
            duration_ms=seconds * 1000,
            token=None if call.caller is None else call.caller.id,
        )
