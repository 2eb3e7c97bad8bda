"""Real processes that are really killed. Each module runs on its own: `python -m tests.chaos.kill9 --rounds 500`."""
