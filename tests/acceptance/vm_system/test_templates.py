"""Section 5.1, and what 5.12 says of the core."""

from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.acceptance.vm_system.conftest import LODASH, ok, refused


def _post(api: httpx2.Client, template: dict[str, Any], what: str, **body: Any) -> httpx2.Response:
    return api.post(f"/templates/{template['id']}/{what}", json=body)


@pytest.fixture
def full(api: httpx2.Client, template: dict[str, Any]) -> dict[str, Any]:
    """A template with one of everything."""
    ok(_post(api, template, "capabilities", kind="module", name="console", enabled=True, config={}), 201)
    ok(_post(api, template, "startup-files", path="runtime/startup.js", order_index=10, mode="eval"), 201)
    ok(_post(api, template, "modules", name="fs"), 201)
    ok(_post(api, template, "libraries", name=LODASH), 201)
    return template


def test_TPL_01_fixed_the_engine_is_a_language(api: httpx2.Client) -> None:
    made = ok(api.post("/templates", json={"name": f"first {uuid4()}"}), 201)
    assert made["id"]
    assert made["engine"] == "javascript"
    assert made["exposed_modules"] == made["libraries"] == []


def test_TPL_02(api: httpx2.Client, template: dict[str, Any]) -> None:
    assert template["id"] in [found["id"] for found in ok(api.get("/templates"))]


def test_TPL_03(api: httpx2.Client, template: dict[str, Any]) -> None:
    made = ok(_post(api, template, "capabilities", kind="module", name="console", enabled=True, config={}), 201)
    assert made == {
        "id": made["id"],
        "template_id": template["id"],
        "kind": "module",
        "name": "console",
        "enabled": True,
        "config": {},
    }


def test_TPL_04(api: httpx2.Client, template: dict[str, Any]) -> None:
    made = ok(_post(api, template, "startup-files", path="runtime/startup.js", order_index=10, mode="eval"), 201)
    assert (made["path"], made["order_index"], made["mode"]) == ("runtime/startup.js", 10, "eval")


def test_TPL_05(api: httpx2.Client, template: dict[str, Any]) -> None:
    assert ok(_post(api, template, "modules", name="fs"), 201) == {"template_id": template["id"], "name": "fs"}


def test_TPL_06(api: httpx2.Client, template: dict[str, Any]) -> None:
    assert ok(_post(api, template, "libraries", name=LODASH), 201) == {"template_id": template["id"], "name": LODASH}


def test_TPL_07(api: httpx2.Client, template: dict[str, Any]) -> None:
    error = refused(_post(api, template, "startup-files", path="a.js", mode="import"), 422, "STARTUP_MODE_UNSUPPORTED")
    assert error["details"]["requested_mode"] == "import"
    assert error["details"]["supported_modes"] == ["eval"]


def test_TPL_08(api: httpx2.Client, template: dict[str, Any]) -> None:
    refused(_post(api, template, "modules", name="json"), 422, "MODULE_NOT_ALLOWED")


def test_TPL_09(api: httpx2.Client, full: dict[str, Any]) -> None:
    refused(_post(api, full, "startup-files", path="other.js", mode="import"), 422, "STARTUP_MODE_UNSUPPORTED")
    detail = ok(api.get(f"/templates/{full['id']}"))
    assert detail["template"]["id"] == full["id"]
    assert detail["settings"]
    assert [found["name"] for found in detail["capabilities"]] == ["console"]
    assert [found["path"] for found in detail["startup_files"]] == ["runtime/startup.js"]
    assert detail["template"]["exposed_modules"] == ["fs"]
    assert detail["template"]["libraries"] == [LODASH]


def test_TPL_10(api: httpx2.Client, full: dict[str, Any]) -> None:
    base = f"/templates/{full['id']}"
    assert len(ok(api.get(f"{base}/capabilities"))) == 1
    assert len(ok(api.get(f"{base}/startup-files"))) == 1
    assert ok(api.get(f"{base}/modules")) == ["fs"]
    assert ok(api.get(f"{base}/libraries")) == [LODASH]


def test_TPL_11(api: httpx2.Client, full: dict[str, Any]) -> None:
    base = f"/templates/{full['id']}"
    assert ok(api.delete(f"{base}/modules/fs")) == {"status": "ok", "template_id": full["id"], "name": "fs"}
    assert ok(api.delete(f"{base}/libraries/{LODASH}")) == {"status": "ok", "template_id": full["id"], "name": LODASH}
    assert ok(api.get(f"{base}/modules")) == ok(api.get(f"{base}/libraries")) == []


def test_TPL_12(api: httpx2.Client, template: dict[str, Any]) -> None:
    assert ok(api.delete(f"/templates/{template['id']}")) == {"status": "ok", "template_id": template["id"]}
    refused(api.get(f"/templates/{template['id']}"), 404, "TEMPLATE_NOT_FOUND")


def test_COR_01(api: httpx2.Client, template: dict[str, Any]) -> None:
    settings = ok(api.get(f"/templates/{template['id']}"))["settings"]
    assert settings["template_id"] == template["id"]
    limits = {"cpu_ms": 2000, "wall_ms": 5000, "mem_mb": 128, "max_events": 50000, "max_output_kb": 256}
    assert limits.items() <= settings["limits"].items()
    assert settings["resolver"] == {"roots": ["."], "extensions": [".js", ".mjs"], "allow_absolute_repo_imports": True}
    assert settings["runtime"] == {"esm": True, "strict": True, "console": True}


def test_COR_02_COR_03_COR_04(api: httpx2.Client, template: dict[str, Any]) -> None:
    refused(_post(api, template, "modules", name="json"), 422, "MODULE_NOT_ALLOWED")
    refused(_post(api, template, "modules", name="teleport"), 422, "MODULE_NOT_ALLOWED")
    ok(_post(api, template, "modules", name="fs"), 201)
    assert ok(api.get(f"/templates/{template['id']}/modules")) == ["fs"]


def test_fixed_a_name_is_taken_once(api: httpx2.Client, template: dict[str, Any]) -> None:
    refused(api.post("/templates", json={"name": template["name"]}), 409, "NAME_TAKEN")


def test_fixed_duplicates_are_conflicts(api: httpx2.Client, full: dict[str, Any]) -> None:
    refused(_post(api, full, "capabilities", kind="module", name="console"), 409, "CAPABILITY_EXISTS")
    refused(_post(api, full, "startup-files", path="runtime/../runtime/startup.js"), 409, "STARTUP_FILE_EXISTS")


@pytest.mark.parametrize("what", ["capabilities", "modules", "libraries", "startup-files", "settings", "versions"])
def test_fixed_parts_of_a_template_that_is_not_there_are_not_there(api: httpx2.Client, what: str) -> None:
    refused(api.get(f"/templates/{uuid4()}/{what}"), 404, "TEMPLATE_NOT_FOUND")


def test_fixed_a_template_that_is_not_there_cannot_be_deleted(api: httpx2.Client) -> None:
    refused(api.delete(f"/templates/{uuid4()}"), 404, "TEMPLATE_NOT_FOUND")


def test_fixed_an_unknown_engine_is_refused(api: httpx2.Client) -> None:
    refused(api.post("/templates", json={"name": f"x {uuid4()}", "engine": "goja"}), 400, "VALIDATION_ERROR")
