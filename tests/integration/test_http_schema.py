"""Schemathesis reads the document and tries to prove it wrong, with all its checks, against a real server."""

import os
import subprocess
import sys
from pathlib import Path

from tests.http_server import served

_ROOT = Path(__file__).parents[2]
_CONFIG = """
hooks = "tests.http_hooks"
[generation]
allow-x00 = false
[checks.positive_data_acceptance]
# 422 is for what is understood and cannot be done, such as a module that there is not
expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429"]
"""


def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(_CONFIG)
    with served(tmp_path) as server:
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(tmp_path / "schemathesis.toml")),
            *("run", f"{server.url}/api/v1/openapi.json", "--header", f"Authorization: Bearer {server.token}"),
            *("--checks", "all", "--phases", "coverage,fuzzing,stateful", "--max-examples", "2", "--seed", "1"),
            *("--exclude-path-regex", "stream$", "--generation-database", "none", "--no-color", "--request-timeout", "10"),
        ]
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110)
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]
    assert "Tested: 7" in ended.stdout  # seventy-odd operations, not none
