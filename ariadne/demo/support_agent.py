"""The story of a support agent. A summary omits a rule of the customer, and the retention check restores it."""

from __future__ import annotations

from collections.abc import Iterator

from ariadne.demo.filler import reservation_record
from ariadne.demo.script import Step, Story, Turn

SYSTEM = (
    "You are a service agent of Aria Airlines. Policy: refunds above 400 EUR need a supervisor; never change a booking "
    "without the traveler's explicit yes; compensation is paid once per reservation."
)
OMITTED_RULE = "Do not book anything over 900 EUR without asking me."
_ASKS = (
    "My flight was canceled. Reservation QX7PLM, name Ioana Marin. I only want aisle seats, and must be in Toronto by "
    "18:00 on the 14th.",
    OMITTED_RULE,
    "What about going through Lisbon?",
    "Yes, take that one. Also my daughter travels with me, reservation QX7PLN. She is vegetarian.",
    "The old ticket should be refunded to the card 5555 5555 5555 4444, which ends in 4444.",
    "Is the refund above your limit? Then ask your supervisor.",
    "Please add a bag, 23 kg, for both of us.",
    "What seats do we have now?",
    "And the compensation? You said 600 EUR each.",
    "Send the confirmation to my work address, ioana.marin@example.org.",
    "Can you repeat what you still owe me?",
    "One more thing: the return flight on the 22nd, can it be the evening one?",
    "Yes, change the return.",
    "Thank you. What did I ask you never to do?",
)


def _turns() -> Iterator[Turn]:
    for number, ask in enumerate(_ASKS):
        reservation = "QX7PLM" if number % 3 else "QX7PLN"
        steps = [
            Step("find_reservation", {"number": reservation}, reservation_record(f"{reservation}{number}"), 0.4),
            Step("search_flights", {"to": "YYZ", "day": 14 + number % 8}, reservation_record(f"options {number}"), 0.9),
        ]
        if number in {3, 6, 12}:
            fault = {"error": "fare no longer available", "code": "FARE_EXPIRED"}
            steps.append(Step("change_booking", {"number": reservation}, str(fault), 0.5, is_error=True))
            steps.append(
                Step("change_booking", {"number": reservation, "retry": True}, reservation_record(f"new {number}"), 0.7)
            )
        yield Turn(ask, tuple(steps), _reply(number))


def _reply(number: int) -> str:
    return (
        "I am sorry, Ms Marin. I have QX7PLM here: aisle seats, in Toronto by 18:00 on the 14th. Let me look.",
        "Noted: nothing above 900 EUR without your yes.",
        "Through Lisbon there is AR482, 870 EUR, in Toronto at 16:40.",
        "Booked AR482 for both, aisle and middle beside it, one vegetarian meal for QX7PLN.",
        "The refund of 512 EUR goes to the card ending 4444.",
        "512 EUR is above 400, so my supervisor must approve; request SR-8841 is open.",
        "Two bags of 23 kg added, 60 EUR in all.",
        "18C and 18D.",
        "600 EUR each, paid once per reservation: case CMP-20417 and CMP-20418.",
        "Sent.",
        "Open: refund SR-8841 (512 EUR), compensation CMP-20417 and CMP-20418.",
        "AR517 leaves at 20:45 on the 22nd; the change costs 35 EUR. Do you want it?",
        "Done: AR517 on the 22nd.",
        "Never book anything over 900 EUR without asking you.",
    )[number]


STORY = Story(
    session_id="support-QX7PLM",
    agent="service",
    model="gpt-5-mini",
    window_tokens=12_000,
    system=SYSTEM,
    turns=tuple(_turns()),
    live_from=12,
    tools=("find_reservation", "search_flights", "change_booking"),
    strategy="requirements_ledger",
    summarizer_omits=OMITTED_RULE,
)
