"""Histories of Gemini's `generateContent`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from compact.messages.block_kinds import BLOCK_KINDS, Content, Format
from providers import gemini_api
from providers.gemini_api import Signed
from providers.histories.examples import example, kinds
from providers.histories.grammar import Instruct, Respond, Say, ToolCall
from providers.histories.history import History, Item, bare, choose

_FORM = Format.GEMINI
_ATTACHMENTS = [kind.name for kind in kinds(_FORM, content=Content.MEDIA)]
_HOSTED = [kind.name for kind in kinds(_FORM, content=Content.CALL) if kind.is_hosted]
_CALL, _RESPONSE = "functionCall", "functionResponse"


@dataclass
class GeminiHistory(History):
    signed: Signed = field(default_factory=Signed)

    form = _FORM
    codec = "gemini"

    def user_item(self, text: str, step: Say) -> Item:
        attachments = [example(choose(_ATTACHMENTS, number), _FORM) for number in step.attachments]
        return {"role": "user", "parts": [{"text": text}, *attachments]}

    def say(self, step: Say) -> None:
        super().say(step)
        if [item["role"] for item in self.items[-2:]] != ["user", "user"]:
            return
        # The roles alternate, so a host adds what the user says to the message before.
        newest, before = self.items.pop(), self.items.pop()
        self.pinned = [item for item in self.pinned if item not in (bare(newest), bare(before))]
        item = {"role": "user", "parts": [*before["parts"], *newest["parts"]]}
        self.add(item, is_protected="meta" in newest or "meta" in before)

    def instruct(self, step: Instruct) -> None:
        """Do nothing: instructions are beside the contents."""

    def response(self, step: Respond) -> Iterator[None]:
        yield
        calls = [(call, self._call(call)) for call in step.calls]
        parts = [*self._first_parts(step), *(part for _, part in calls)]
        if self.thinks:
            # The signature is at the first call, or else at the end.
            index = next((index for index, part in enumerate(parts) if _CALL in part), len(parts) - 1)
            parts[index] = self.signed.sign(parts[index])
        self.items.append({"role": "model", "parts": parts})
        responses = [self._response(call, part) for call, part in calls if call.is_answered]
        self.must_say = len(responses) < len(calls)
        if step.layout == "reversed" and self.thinks and not self._drops_ids(step):
            responses.reverse()
        if self._drops_ids(step):
            for part in responses:
                part[_RESPONSE].pop("id", None)
        if responses:
            self.items.append({"role": "user", "parts": responses})

    def validate(self, prompt: Sequence[Item]) -> None:
        model = "gemini-3-pro" if self.thinks else "gemini-2.5-flash"
        gemini_api.validate({"contents": list(prompt)}, self.signed, model=model)

    def last_role(self) -> str:
        return "assistant" if super().last_role() == "model" else super().last_role()

    def ends_with_calls(self) -> bool:
        last = next((item for item in reversed(self.items) if item["role"] == "model"), {"parts": []})
        return any(_CALL in part for part in last["parts"])

    def is_spoken_by_user(self, item: Item) -> bool:
        parts = item["parts"]
        return item["role"] == "user" and len(parts) == 1 and not parts[0].get("text", "(").startswith("(")

    def own(self, item: Item) -> Item:
        aborted = {"error": "aborted"}
        parts = [part for part in item["parts"] if part.get(_RESPONSE, {}).get("response") != aborted]
        return {**item, "parts": parts}

    def _first_parts(self, step: Respond) -> list[Item]:
        """Return the parts before the calls. A response without any has a text."""
        thoughts = [{"text": self.text(30, "thought"), "thought": True}] if self.thinks and step.words == 30 else []
        extras = [part for number in step.extras for part in self._hosted_pair(choose(_HOSTED, number))]
        words = step.words or (0 if step.calls else 3)
        return [*thoughts, *extras, *([{"text": self.text(words, "reply")}] if words else [])]

    def _hosted_pair(self, name: str) -> tuple[Item, Item]:
        """Return a call that the provider runs, and its result."""
        ids = {"id": self.next_id()} if self.thinks else {}
        return example(name, _FORM, **ids), example(BLOCK_KINDS[name].answered_by, _FORM, **ids)

    def _call(self, call: ToolCall) -> Item:
        """Return a call. Only newer models give it an id."""
        ids = {"id": f"call-{self.next_id()}"} if self.thinks else {}
        return example(_CALL, _FORM, name=call.tool, **ids)

    def _response(self, call: ToolCall, part: Item) -> Item:
        ids = {key: part[_CALL][key] for key in ("name", "id") if key in part[_CALL]}
        text = self.output_text(call)
        response = {"output": text} if call.kind % 3 else {"stdout": text, "exit_code": 0}
        media: Item = {"parts": [example("inlineData", _FORM)]} if call.attachment else {}
        return example(_RESPONSE, _FORM, **ids, response=response, **media)

    def _drops_ids(self, step: Respond) -> bool:
        """True for a host that answers by the name of the function, as the helpers of the Python SDK do."""
        return bool(step.calls) and step.calls[0].kind % 4 == 0
