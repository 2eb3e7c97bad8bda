"""Which startup files become part of a template.

One that says `auto` does if it runs to its end, and in that reaches for nothing but modules of the template and says nothing that nobody
would hear. Else it runs in each session as it starts, and so do those after it that say `auto`: they keep their order.
"""

from collections.abc import Sequence

from holdfast.capabilities import Resolver, SessionModules
from holdfast.domain import StartupFile, TemplateSpec
from holdfast.sandbox import Guest, Modules, Source, Template, TemplateFailed


def bake(guest: Guest, spec: TemplateSpec, libraries: Sequence[Source], own: Modules) -> tuple[Template, frozenset[str]]:
    """A template, and the names of the startup files that are part of it. `own` are the modules that it has as files."""
    files = _candidates(spec)
    loader = SessionModules(Resolver(spec, own), None)
    inputs = [spec.modules, dict(spec.resolver)] if files else []
    while True:
        startup = [Source(file.filename, file.text, pure=file.when == "auto") for file in files]
        try:
            template = guest.template(libraries, startup, limits=spec.limits, modules=loader, inputs=inputs)
        except TemplateFailed as error:
            at = error.startup
            if at is None or files[at].when != "auto":
                raise
            files = [file for number, file in enumerate(files) if number < at or file.when == "template"]
            continue
        return template, frozenset(file.filename for file in files)


def _candidates(spec: TemplateSpec) -> list[StartupFile]:
    """The files that may become part of a template, as far as their order allows it."""
    found: list[StartupFile] = []
    in_order = True
    for file in spec.startup:
        in_order = in_order and file.when != "session"
        if file.when == "template" or (file.when == "auto" and in_order):
            found.append(file)
    return found
