"""Builds the guests: WebAssembly modules from pinned third-party sources and our own C.

Theory of operation
-------------------
Nothing of QuickJS-NG or Lua is kept in this repository. A guest is made in five moves, each in a module of its own:

    sources   fetch the pinned source distribution, check its hash, unpack the one folder that is needed
    edits     apply the guest's reviewed edits, each of which must match exactly as often as it says
    prelude   bundle the guest's script prelude with its npm packages, and wrap it as C
    compile   compile every file to an object, in parallel, then link
    cache     keep downloads, objects and finished modules by the hash of all that they were made from

`recipes` says what each guest consists of, `layout` describes the folder in which it is compiled, and `make` runs the moves.

The result depends on the input only. A compiler never sees an absolute path: each guest is laid out in a scratch folder, and
the compiler runs inside it with relative names. So the same input gives the same digest in any folder, and a finished module can be
found by hashing the input, without fetching or unpacking anything.

The wheel's build hook (`hatch_build.py`) and `python -m guests.build` are the two callers.
"""
