"""Every command explains itself, speaks JSON, and is in the documentation."""

import re
from pathlib import Path

import pytest

from holdfast.cli.app import parsing

ROOT = parsing()
DOCS = Path(__file__).parents[2] / "docs" / "cli.md"


def leaves(command=ROOT, path=()):
    for name, sub in command.commands.items():
        if hasattr(sub, "commands"):
            yield from leaves(sub, (*path, name))
        else:
            yield " ".join((*path, name)), sub


COMMANDS = dict(leaves())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_json_and_a_help_with_an_example(name, capsys):
    command = COMMANDS[name]
    assert any("--json" in parameter.opts for parameter in command.params)
    command.main(["--help"], prog_name=f"holdfast {name}", standalone_mode=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Example: holdfast {name}" in shown
    assert command.help


def test_the_documentation_has_exactly_these_commands():
    documented = re.findall(r"^#### `holdfast ([a-z -]+)`$", DOCS.read_text(), re.MULTILINE)
    assert sorted(documented) == sorted(COMMANDS)


def test_the_documentation_has_every_option():
    text = DOCS.read_text()
    sections = dict(re.findall(r"^#### `holdfast ([a-z -]+)`$(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL))
    for name, command in COMMANDS.items():
        if name == "serve":
            continue  # its flags are the daemon's table of settings
        for parameter in command.params:
            for option in parameter.opts + parameter.secondary_opts:
                if option.startswith("--") and option not in ("--help", "--json"):
                    assert option in sections[name], f"{name} {option}"


def test_examples_in_the_documentation_name_commands_that_exist():
    for line in re.findall(r"^\$ holdfast (.+)$", DOCS.read_text(), re.MULTILINE):
        words = [word for word in line.split() if re.fullmatch("[a-z-]+", word)]
        assert any(" ".join(words[:length]) in COMMANDS for length in (1, 2)) or line.startswith("--"), line


def test_cli_05_the_root_has_the_groups_of_vm_system():
    assert {"serve", "template", "session", "exec", "ops", "libs"} <= ROOT.commands.keys()
    assert "http" not in ROOT.commands


def test_cli_06_fixed_the_group_of_sessions_has_delete():
    """vm-system has none on purpose: its DELETE only closes. Ours removes, so it has a name of its own."""
    assert {"create", "list", "get", "close", "delete"} <= ROOT.commands["session"].commands.keys()


def test_cli_07_the_group_of_templates_has_modules_and_libraries():
    found = ROOT.commands["template"].commands.keys()
    assert {f"{verb}-{part}" for verb in ("add", "remove") for part in ("module", "library")} <= found
    assert {"list-modules", "list-libraries", "list-available-modules", "list-available-libraries"} <= found
