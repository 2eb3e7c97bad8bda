"""The process in which SQLite runs for scripts. It imports nothing of Holdfast, and Holdfast imports only `wire` from it."""
