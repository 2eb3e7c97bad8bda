"""Requests to a sandbox as JSON, for steps that another process may have to run again."""

from typing import Any

from holdfast.domain import Answer
from holdfast.sandbox import Call, Evaluate, Failure, Request, Resume, RunFile


def failure(answer: Answer) -> Failure:
    """An answer that raises, as the sandbox takes it."""
    error = answer.error or {}
    return Failure(str(error.get("message", "")), error.get("code"), str(error.get("name", "Error")))


def given(answer: Answer) -> Any:
    """An answer as the sandbox takes it."""
    return answer.value if answer.error is None else failure(answer)


def request_as_dict(request: Request) -> dict[str, Any]:
    """A request as JSON."""
    if isinstance(request, Evaluate):
        return {"op": "evaluate", "source": request.source, "filename": request.filename}
    if isinstance(request, RunFile):
        return {"op": "run_file"} | request._asdict()
    if isinstance(request, Call):
        return {"op": "call", "function": request.function, "args": list(request.args)}
    if isinstance(request, Resume):
        return {"op": "resume", "answers": [[number, _answer_as_dict(value)] for number, value in request.answers.items()]}
    raise TypeError(f"a {type(request).__name__} is never run again")


def request_from_dict(saved: dict[str, Any]) -> Request:
    """The request that was saved."""
    kind = saved["op"]
    if kind == "evaluate":
        return Evaluate(saved["source"], saved["filename"])
    if kind == "run_file":
        return RunFile(saved["source"], saved["filename"], saved["args"], saved["env"])
    if kind == "call":
        return Call(saved["function"], saved["args"])
    return Resume({number: given(Answer.from_dict(answer)) for number, answer in saved["answers"]})


def _answer_as_dict(value: Any) -> dict[str, Any]:
    if isinstance(value, Failure):
        return Answer(error={"message": value.message, "code": value.code, "name": value.name}).as_dict()
    return Answer(value).as_dict()
