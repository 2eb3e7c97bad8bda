"""Workflow records of one tenant: their ids in the store have the tenant in them."""

from typing import Any, cast

from holdfast.control._tenant_store import scoped_name, unscoped_name
from holdfast.domain import DEFAULT_TENANT
from holdfast.store import Store
from holdfast.store.workflows import SessionStore


class _Documents:
    """The documents of a store, confined to a tenant."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store, self._tenant = store, tenant

    def _name(self, document_id: str) -> str:
        return scoped_name(self._tenant, document_id, DEFAULT_TENANT)

    def create_document(self, document_id: str, data: dict[str, Any]) -> int:
        return self._store.create_document(self._name(document_id), data)

    def get_document(self, document_id: str) -> tuple[int, dict[str, Any]] | None:
        return self._store.get_document(self._name(document_id))

    def update_document(self, document_id: str, data: dict[str, Any], expected: int | None) -> int:
        return self._store.update_document(self._name(document_id), data, expected)

    def delete_document(self, document_id: str) -> bool:
        return self._store.delete_document(self._name(document_id))

    def list_documents(self) -> list[str]:
        names = (unscoped_name(self._tenant, name, DEFAULT_TENANT) for name in self._store.list_documents())
        return [name for name in names if name is not None]


def workflows_of(store: Store, tenant: str) -> SessionStore:
    """Return the workflow records of a tenant."""
    return SessionStore(cast(Store, _Documents(store, tenant)))
