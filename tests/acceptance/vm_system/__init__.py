"""What vm-system's own tests assert, line by line, over HTTP against a real daemon process.

Each test is named by the line's id. Where we behave differently on purpose its name says `fixed` and what is so; the table of these is
in docs/compatibility.md.
"""
