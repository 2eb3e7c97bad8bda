"""Benchmarks: `python -m benchmarks [suite] [--json]`. They report speed; tests assert behaviour."""
