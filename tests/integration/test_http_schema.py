"""Schemathesis reads the document and tries to prove it wrong, against a real server."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis

from tests.http_server import Served, served
