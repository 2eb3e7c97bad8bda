"""The module `database`: SQLite and PostgreSQL behind one interface, and what SQL of a script may not do."""
