"""Plain data and rules: no I/O, no async, no clock. Imports nothing of Holdfast but itself."""

from holdfast.domain._errors import Fault, HoldfastError
from holdfast.domain._limits import Breach, Limit, Limits

__all__ = ["Breach", "Fault", "HoldfastError", "Limit", "Limits"]
