"""The forms in which messages enter the prompt, and the tokens of each.

A truncated message has a shorter form than in the log. Requests that were already sent keep the form they had, so that
they can be rendered again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from compact.messages import Message
from compact.planning.log import AgentThread


class PromptForms:
    """The truncated messages of one log, the forms they had before, and token counts."""

    def __init__(self) -> None:
        self._current: dict[str, Message] = {}
        self._earlier: list[tuple[int, str, Message]] = []
        """Forms that were replaced: the number of requests sent by then, the message id, the form."""
        self._tokens: dict[str, int] = {}

    def get(self, message: Message) -> Message:
        """Return the message as it enters the prompt: truncated or as it is."""
        return self._current.get(message.id or "", message)

    @property
    def truncated(self) -> dict[str, Message]:
        """The truncated messages by id, in the form that enters the prompt."""
        return dict(self._current)

    def truncate(self, logged: Message | None, short: Message, message_id: str, *, sent_count: int) -> None:
        """Use a shorter form of a message from now on."""
        current = self._current.get(message_id) or logged
        if current is not None:
            self._earlier.append((sent_count, message_id, current))
        self._current[message_id] = replace(short, id=message_id)
        self._tokens.pop(message_id, None)

    def restate(self, message_id: str, *, sent_count: int) -> None:
        """Forget the form and the tokens of a message that the host shows in another form."""
        if message_id in self._current:
            self._earlier.append((sent_count, message_id, self._current.pop(message_id)))
        self._tokens.pop(message_id, None)

    def restore(self, forms: Mapping[str, Message]) -> None:
        """Go back to the forms of `truncated`, after a compaction that failed."""
        for message_id in self._current.keys() - forms.keys():
            self._tokens.pop(message_id, None)
        for message_id, form in forms.items():
            if self._current.get(message_id) is not form:
                self._tokens.pop(message_id, None)
        self._current = dict(forms)

    def at(self, number: int) -> dict[str, Message]:
        """Return the forms that request `number` used for messages whose form changed later."""
        forms: dict[str, Message] = {}
        for sent_count, message_id, form in self._earlier:
            if sent_count >= number:
                forms.setdefault(message_id, form)
        return forms

    def forget_before(self, first_number: int) -> None:
        """Forget the forms that only requests before this number used."""
        while self._earlier and self._earlier[0][0] < first_number:
            del self._earlier[0]

    def count_tokens(self, message: Message, thread: AgentThread, count_message: Callable[[Message], int]) -> int:
        """Return the tokens of a message in the prompt. Logged messages are counted once."""
        message_id = message.id or ""
        if self._current.get(message_id, thread.get(message_id)) is not message:
            # A replacement or a cleared output. Its text is short, and the estimator caches it.
            return count_message(message)
        tokens = self._tokens.get(message_id)
        if tokens is None:
            tokens = self._tokens[message_id] = count_message(message)
        return tokens
