"""The server, for any transport: the SDK's, with our tools and resources."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError

from holdfast._version import VERSION
from holdfast.control import Holdfast
from holdfast.domain import Forbidden, HoldfastError, InvalidValue, NotFound, new_id
from holdfast.mcp import _resources
from holdfast.mcp._arguments import check_content, checked
from holdfast.mcp._calls import Calls, Json, names_queries, session_of
from holdfast.mcp._errors import told
from holdfast.mcp._plain import shown
from holdfast.mcp._progress import Progress
from holdfast.mcp._rights import audit_entry, caller_id, may, require, view
from holdfast.mcp._rounds import MOST_ROUNDS, Abilities, Round, answers
from holdfast.mcp._tools import ANSWER, INSTRUCTIONS, READ, TOOLS, Tool
from holdfast.mcp._under_way import Run, UnderWay, connection_of

NAME: Final = "holdfast"
KEY_META: Final = "holdfast/idempotencyKey"
"""Where a host may put an idempotency key that the model shall not see."""
_LONGEST_KEY: Final = 200
_STAYS: Final = CacheHint(ttl_ms=3_600_000, scope="public")

Context = ServerRequestContext[Any, Any]
Outcome = types.CallToolResult | types.InputRequiredResult


class Strategies:
    """What is served. `under_way` is to be closed after Holdfast is."""

    def __init__(self, hf: Holdfast, *, secret: bytes, state_s: float, root: str | None = None) -> None:
        self._hf, self._calls, self.under_way = hf, Calls(hf, root), UnderWay(hf)
        self._pipes = new_id().hex
        """Stands for the one connection of a process that is served over pipes."""
        self.server: Server[Any] = Server(
            NAME,
            version=VERSION,
            title="Holdfast",
            instructions=INSTRUCTIONS,
            cache_hints={"tools/list": _STAYS, "resources/list": _STAYS, "resources/templates/list": _STAYS},
            get_tool_input_schema=lambda name: TOOLS[name].input if name in TOOLS else None,
            on_list_tools=_list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=_list_resources,
            on_list_resource_templates=_list_resource_templates,
            on_read_resource=self._read_resource,
        )
        sealed = RequestStateSecurity(keys=[secret], ttl=state_s, audience=NAME)
        self.server.middleware += [RequestStateBoundary(sealed, default_audience=NAME), self.under_way]

    # ---- tools ---------------------------------------------------------------------------------------------------------------------

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Outcome:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(code=types.INVALID_PARAMS, message=f"there is no tool {params.name[:60]!r}")
        began = Round.read(params.request_state)
        try:
            given = checked(tool, params.arguments)
            require(tool.needs(given))
            run = Run()
            if began is not None:
                require(ANSWER)
                check_content((ctx.params or {}).get("inputResponses"), "the answers")
                run.session_id = UUID(began.session_id)
            elif tool.name == "continue":
                run.session_id = session_of(given)
            outcome = await self.under_way.do(ctx, run, self._do(ctx, tool, given, params, began, run))
            self._note(ctx, tool, params, run.session_id)
            return outcome
        except Exception as error:  # noqa: BLE001 - whatever it is, the client hears of it, and not what it is
            self._note(ctx, tool, params, None, error)
            text = told(error, f"the tool {tool.name}")
            if began is not None:  # the client has not seen which session this is about
                text += f" (session {began.session_id})"
            return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)

    def _note(
        self,
        ctx: Context,
        tool: Tool,
        params: types.CallToolRequestParams,
        session_id: UUID | None,
        error: Exception | None = None,
    ) -> None:
        """Put a call that changes something, or was refused, into the audit log."""
        is_refused = isinstance(error, Forbidden)
        if tool.scope == READ and not is_refused and "note" not in (params.arguments or {}):
            return
        about = session_id or session_of(params.arguments or {})
        entry = audit_entry(
            f"mcp {tool.name}", None if about is None else str(about), error, ctx.request, self._hf.auditor.now()
        )
        # Those that fail are counted together: a caller can have as many of them as it likes.
        (self._hf.auditor.add if error is None else self._hf.auditor.refuse)(entry)

    async def _do(
        self, ctx: Context, tool: Tool, given: Json, params: types.CallToolRequestParams, began: Round | None, run: Run
    ) -> Outcome:
        progress = await self._progress(ctx, tool, run)
        try:
            if began is not None:
                return await self._go_on(ctx, began, params.input_responses or {})
            reply = await self._calls(tool.name, given, self._key(ctx, tool, given), run)
        finally:
            if progress is not None:
                await progress.end()
        if reply.get("status") == "needs_response" and tool.scope != READ:
            return await self._ask(ctx, reply, 1)
        return _result(reply)

    async def _go_on(self, ctx: Context, began: Round, given: types.InputResponses) -> Outcome:
        """The same call again, with what the client was asked. What it left open is told as `needs_response`."""
        runs = view(self._hf).strategies
        asked = [one for one in await runs.asked(began.session_id) if one.id in began.queries]
        responses = answers(asked, given)
        reply = await runs.resume(began.session_id, responses)
        left = {one.id for one in asked} - {response.query_id for response in responses}
        if reply["status"] == "accepted":
            reply = await runs.outcome(began.session_id, wait_s=0)
        if reply["status"] == "needs_response" and not left:
            return await self._ask(ctx, reply, began.number + 1)
        return _result(reply)

    async def _ask(self, ctx: Context, reply: Json, number: int) -> Outcome:
        """Asks the client what a run asks, if it can be asked that and has not been asked too often; else tells it to answer."""
        abilities = Abilities.of(ctx.protocol_version, ctx.session.client_capabilities)
        if abilities and number <= MOST_ROUNDS and may(ANSWER):
            asked = await view(self._hf).strategies.asked(reply["session_id"])
            requests = abilities.requests(asked)
            if requests is not None:
                state = Round(reply["session_id"], tuple(requests), number).text()
                return types.InputRequiredResult(input_requests=requests, request_state=state)
        return _result(reply)

    async def _progress(self, ctx: Context, tool: Tool, run: Run) -> Progress | None:
        if tool.scope == READ or "progressToken" not in _meta(ctx):
            return None
        progress = Progress(view(self._hf), ctx.session.report_progress)
        if run.session_id is not None:
            try:
                await progress.follow(run.session_id)
            except NotFound:
                return None  # which whoever does the call will say
        else:
            run.begun.append(progress.follow_new)
        return progress

    def _key(self, ctx: Context, tool: Tool, given: Json) -> str | None:
        """What makes a call that is repeated happen once: what was said, or what the same message would have again.

        An id of a request is unique in its connection. Where there is none (HTTP since 2026-07-28), two hosts may well use the same
        ids for the same call, and must not get one run between them: there only a key that was given counts.
        """
        if "idempotency_key" not in tool.properties:
            return None
        named = given.get("idempotency_key", _meta(ctx).get(KEY_META))
        if named is None and ctx.request is not None:
            named = ctx.request.headers.get("idempotency-key")
        if named is None:
            connection = self._pipes if ctx.request is None else connection_of(ctx)
            if not connection or tool.name == "cancel" or names_queries(given):  # these are done once as they are
                return None
            named = f"{connection} {ctx.request_id!r}"
        elif not isinstance(named, str) or not 1 <= len(named) <= _LONGEST_KEY:
            raise InvalidValue(f"an idempotency key has 1 to {_LONGEST_KEY} characters")
        # Each has keys of its own, so none sees the replies of another.
        return f"{caller_id()} {hashlib.sha256(named.encode('utf-8', 'surrogatepass')).hexdigest()}"

    # ---- resources -----------------------------------------------------------------------------------------------------------------

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        try:
            require(READ)
            return types.ReadResourceResult(contents=[await _resources.read(view(self._hf), params.uri)])
        except Exception as error:  # noqa: BLE001 - as for tools
            code = types.INVALID_PARAMS if isinstance(error, HoldfastError) else types.INTERNAL_ERROR
            raise MCPError(code=code, message=told(error, "a resource"), data={"uri": params.uri[:200]}) from None


async def serving_of(hf: Holdfast, *, state_s: float, root: str | None = None) -> Strategies:
    """What is served of an opened Holdfast. What clients keep between rounds is sealed with a key that the store keeps."""
    return Strategies(hf, secret=await hf.secret("mcp request state"), state_s=state_s, root=root)


def _meta(ctx: Context) -> Mapping[str, Any]:
    found = (ctx.params or {}).get("_meta")
    return found if isinstance(found, Mapping) else {}


def _result(reply: Json) -> types.CallToolResult:
    """A reply, twice: for programs, and as text for hosts that know nothing else."""
    text, sent = shown(reply)
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=sent)


def _listed(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input,
        output_schema=tool.output,
        annotations=types.ToolAnnotations.model_validate(tool.hints, by_name=False),
    )


_LISTED: Final = [_listed(tool) for tool in TOOLS.values()]


async def _list_tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=_LISTED)


async def _list_resources(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=_resources.FIXED)


async def _list_resource_templates(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(resource_templates=_resources.TEMPLATES)
