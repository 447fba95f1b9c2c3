"""The forms in which messages enter the prompt, and the tokens of each.

A truncated message has a shorter form than in the log. Requests that were already sent keep the form they had, so that
they can be rendered again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from compact.messages import Message
from compact.messages.codecs.base import Codec
from compact.planning.log import AgentThread


def apply_forms(forms: Mapping[str, Message], messages: Sequence[Message]) -> list[Message]:
    """Return the messages in these forms, and the others as they are."""
    return [forms.get(message.id or "", message) for message in messages] if forms else list(messages)


def with_text_of(message: Message, truncated: Message, codec: Codec) -> Message:
    """Return the message with the texts of its truncated form."""
    outputs = dict(codec.outputs(truncated))
    if outputs:
        return codec.map_outputs(message, outputs.get)
    texts: list[str] = []

    def read(text: str) -> str:
        texts.append(text)
        return text

    codec.map_text(truncated, read)
    return codec.map_text(message, lambda text: texts[0] if texts else text)


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

    def apply(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages as they enter the prompt."""
        return apply_forms(self._current, messages)

    @property
    def truncated(self) -> dict[str, Message]:
        """The truncated messages by id, in the form that enters the prompt."""
        return dict(self._current)

    def truncate(self, logged: Message | None, short: Message, message_id: str, *, sent_count: int) -> None:
        """Use a shorter form of a message from now on. It has the id of the message."""
        current = self._current.get(message_id) or logged
        if current is not None:
            self._earlier.append((sent_count, message_id, current))
        self._current[message_id] = short
        self._tokens.pop(message_id, None)

    def restate(self, message_id: str, *, sent_count: int) -> None:
        """Forget the form and the tokens of a message that the host shows in another form."""
        if message_id in self._current:
            self._earlier.append((sent_count, message_id, self._current.pop(message_id)))
        self._tokens.pop(message_id, None)

    def adopt(self, forms: Mapping[str, Message], log: AgentThread, *, sent_count: int) -> None:
        """Use the forms of a compaction that was committed."""
        for message_id, form in forms.items():
            if self._current.get(message_id) is not form:
                self.truncate(log.get(message_id), form, message_id, sent_count=sent_count)

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

    def count_tokens(
        self, messages: Sequence[Message], log: AgentThread, count_message: Callable[[Message], int]
    ) -> list[int]:
        """Return the tokens of each message in the prompt. Logged messages are counted once."""
        counts = []
        for message in messages:
            message_id = message.id or ""
            if self._current.get(message_id, log.get(message_id)) is not message:
                # A replacement or a shortened output. Its text is short, and the estimator caches it.
                counts.append(count_message(message))
                continue
            tokens = self._tokens.get(message_id)
            if tokens is None:
                tokens = self._tokens[message_id] = count_message(message)
            counts.append(tokens)
        return counts
