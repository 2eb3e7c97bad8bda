"""Ways to run Lua programs that the tests of the Lua guest share."""

from holdfast.domain import Limits
from holdfast.sandbox import Breached, Failed, Finished, Paused

NOW = 1_700_000_000_000.0


def run(template, source, **options):
    """The outcome of a snippet in a sandbox of its own."""
    with template.create(seed=7, **options) as sandbox:
        return sandbox.evaluate(source, now=NOW)


def value(outcome):
    assert isinstance(outcome, Finished), outcome
    return outcome.result.value


def failure(outcome):
    assert isinstance(outcome, Failed), outcome
    return outcome.error


def breach(template, source, **limits):
    """The limit that a snippet exceeds."""
    outcome = run(template, source, limits=Limits(wall_ms=20_000, cpu_ms=20_000).but(**limits))
    assert isinstance(outcome, Breached), outcome
    assert outcome.breach.actual >= outcome.breach.allowed
    return outcome.breach.limit


def printed(outcome):
    return [event.payload["text"] for event in outcome.events if event.type == "console"]


def answered(template, source, answer=lambda query: f"a{query.id}", *, thawed=False, **options):
    """Runs a snippet to its end, answers each query, and thaws it at each pause if asked to.

    Gives its last outcome, all events, and its memory.
    """
    sandbox = template.create(seed=7, **options)
    outcome = sandbox.evaluate(source, now=NOW)
    events = list(outcome.events)
    while isinstance(outcome, Paused):
        if thawed:
            image = sandbox.freeze()
            sandbox.close()
            sandbox = template.thaw(image, **options)
        outcome = sandbox.resume({query.id: answer(query) for query in outcome.queries}, now=NOW)
        events += outcome.events
    content = b"" if sandbox.closed else sandbox.content()
    sandbox.close()
    return outcome, events, content
