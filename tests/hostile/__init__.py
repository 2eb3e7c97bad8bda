"""Escape attempts, as data. `tests/integration/test_hostile_corpus.py` runs them."""
