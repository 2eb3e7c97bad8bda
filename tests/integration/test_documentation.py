"""Every Python block in the documentation runs. Those that need a daemon do so in `test_client_daemon`."""

import ast
import asyncio
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    "page", ["README.md", "docs/sandbox.md", "docs/sessions.md", "docs/libraries.md", "docs/worktrees.md", "docs/strategies.md"]
)
def test_the_examples_of_a_page_run_one_after_the_other(page):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    asyncio.run(run_all(page, [block for block in blocks if "holdfast.Client" not in block]))


async def run_all(page, blocks):
    """As one program; `await` may stand anywhere."""
    names: dict[str, object] = {}
    for block in blocks:
        waiting = eval(compile(block, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.isawaitable(waiting):
            await waiting


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
