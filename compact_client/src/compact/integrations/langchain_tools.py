"""The common parts of LangChain and LangGraph: a tool that reads the state of the graph, and the order of roles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import InjectedState
from pydantic import BaseModel, Field

from compact.integrations.recall_call import DESCRIPTION, QUERY_DESCRIPTION, RecallCall
from compact.rendering.user_turns import OPENING_TEXT

Arguments = tuple[str, str, Sequence[Any]]
"""The session id, the query and the messages of a recall."""


class _RecallInput(BaseModel):
    query: str = Field(description=QUERY_DESCRIPTION)
    state: Annotated[Any, InjectedState] = None


def build_recall_tool(call: RecallCall, arguments: Callable[[str, Any], Arguments], name: str) -> BaseTool:
    """Return a tool whose only argument for the model is the query. LangGraph adds the state."""

    def recall(query: str, state: Any = None) -> str:
        return call.run(*arguments(query, state))

    async def arecall(query: str, state: Any = None) -> str:
        return await call.arun(*arguments(query, state))

    return StructuredTool.from_function(recall, arecall, name=name, description=DESCRIPTION, args_schema=_RecallInput)


def state_messages(state: Any, key: str = "messages") -> list[Any]:
    """Return the messages of a graph's state."""
    messages = state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)
    return list(messages or ())


def start_with_user(messages: Sequence[BaseMessage], given: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return a request with a user message first, as Anthropic and Google require. A summary is an assistant message.

    A list that already starts with an assistant message stays as it is.
    """
    first = next((index for index, message in enumerate(messages) if message.type != "system"), 0)
    own_first = next((message for message in given if message.type != "system"), None)
    if not messages or not isinstance(messages[first], AIMessage) or messages[first] is own_first:
        return list(messages)
    return [*messages[:first], HumanMessage(OPENING_TEXT), *messages[first:]]
