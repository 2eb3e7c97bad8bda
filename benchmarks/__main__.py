"""Runs one suite or all, and prints a table, or one JSON object with --json."""

import argparse
import json
import platform
from importlib import import_module

from benchmarks.rows import Row

SUITES = ("capabilities", "durable", "http", "isolation", "sandbox", "strategies")
"""Modules, imported when they are run: some need packages that others do not."""
_WIDTH = 44


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suite", nargs="?", choices=SUITES, help="default: all")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--only", metavar="WORD", default="", help="only the measurements whose name contains this word")
    arguments = parser.parse_args()
    rows: list[Row] = []
    for suite in [arguments.suite] if arguments.suite else SUITES:
        for row in import_module(f"benchmarks.{suite}").run(arguments.only):
            rows.append(row)
            if not arguments.json:
                print(f"{row.key:{_WIDTH}}  {row.value:>10.3f}  {row.against()}", flush=True)
    if arguments.json:
        machine = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
        print(json.dumps({"machine": machine} | {row.key: row.value for row in rows}, indent=2))


if __name__ == "__main__":
    main()
