"""The driver of PostgreSQL, which not every installation has."""

from holdfast.store._errors import StoreError

try:
    import psycopg
except ImportError:
    raise StoreError("PostgreSQL needs a package that is not installed: pip install 'holdfast[postgres]'") from None

__all__ = ["psycopg"]
