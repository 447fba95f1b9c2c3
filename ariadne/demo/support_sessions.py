"""Finished sessions of the support desk, the second project of the demo. One contains secrets that are redacted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ariadne.demo.airline import Airline, leg, traveler
from ariadne.demo.script import PastSession, Step, Story, Turn
from ariadne.demo.support_agent import TOOLS

_SYSTEM = "You are a service agent of Aria Airlines. Never change a booking without the traveler's explicit yes."


def _story(session_id: str, turns: list[Turn], *, strategy: str = "task_state") -> Story:
    return Story(
        session_id,
        "service",
        "gpt-5-mini",
        2_400,
        _SYSTEM,
        turns,
        live_from=99,
        tools=TOOLS,
        strategy=strategy,
        user_pause_s=75,
    )


def _airline(number: str, name: str, seat: str, *legs: dict[str, Any]) -> Airline:
    fare = {"family": "Standard", "basis": "KSTAR", "changes": "35 EUR", "refund": "minus 120 EUR", "bags": 1}
    return Airline(
        {
            number: {
                "travelers": [traveler(name, f"618-22400{sum(map(ord, number)):05d}", seat, bags=1)],
                "legs": list(legs),
                "fare": fare,
            }
        }
    )


def _lost_bag() -> list[Turn]:
    number = "KX3T91"
    airline = _airline(
        number,
        "LINDQVIST/TOVE MS",
        "7A",
        leg("AR722", "LIS", "OSL", "2026-11-14T08:05", "2026-11-14T13:20", state="flown"),
    )
    claim = {"reservation": number, "tag": "0618 4471 20", "last_seen": "LIS, belt 4, 2026-11-14T07:31"}
    return [
        Turn(
            "My bag did not arrive in Oslo. Reservation KX3T91.",
            (airline.find(number), airline.open_case("baggage", "BAG-5521", **claim)),
            "I opened claim BAG-5521 for you. The bag was last seen in Lisbon at 07:31.",
        ),
        Turn(
            "It is a green suitcase with a red ribbon.",
            (
                airline.change(number, "BAG-5521: green suitcase, red ribbon"),
                _trace("BAG-5521", "found in LIS, hall 2, on flight AR724 tomorrow"),
            ),
            "Noted in BAG-5521. It was found in Lisbon and comes with AR724 tomorrow.",
        ),
        Turn(
            "I stay at the harbor hotel until the 19th.",
            (airline.change(number, "BAG-5521: deliver to the harbor hotel until 2026-11-19"), airline.find(number)),
            "The courier delivers there until the 19th.",
        ),
        Turn("Can I buy a coat?", (_policy("delayed baggage"),), "Up to 80 EUR, keep the receipt."),
        Turn(
            "Thank you. Which claim was it?", (_trace("BAG-5521", "with the courier"),), "BAG-5521. The courier has it."
        ),
    ]


def _seat_and_card() -> list[Turn]:
    number = "LM7Q20"
    airline = _airline(
        number, "MOREAU/LENA MS", "22B", leg("AR318", "OTP", "LIS", "2026-12-02T06:10", "2026-12-02T08:35")
    )
    return [
        Turn(
            "Please change my seat, LM7Q20. I want a window.",
            (airline.find(number), _seats("AR318", free=("14F", "27A"))),
            "14F is free. Do you want it?",
        ),
        Turn(
            "Yes. Pay with 4111 1111 1111 1111, my email is lena.moreau@example.org.",
            (airline.change(number, "seat 22B -> 14F, 18 EUR"), _policy("seat fees")),
            "14F is booked.",
        ),
        Turn(
            "My login does not work either. The password is: blue-harbor-77!",
            (_policy("accounts"),),
            "Please never send a password. I sent you a link to set a new one.",
        ),
        Turn(
            "Sorry. And call me at +49 151 23456789 if there is a delay.",
            (airline.change(number, "prefers a call on delays"), airline.find(number)),
            "I noted that you prefer a call.",
        ),
        Turn("Is everything confirmed?", (airline.find(number),), "Yes: 14F, one bag, and a call if there is a delay."),
    ]


def _dog() -> list[Turn]:
    number = "PT5R44"
    airline = _airline(
        number, "AMARAL/RUI MR", "9D", leg("AR601", "ZRH", "LIS", "2026-11-27T11:40", "2026-11-27T13:30")
    )
    return [
        Turn(
            "Can my dog travel with me to Lisbon? PT5R44.",
            (airline.find(number), _policy("animals")),
            "Up to 8 kg with the bag in the cabin, heavier dogs in the hold.",
        ),
        Turn(
            "She weighs 7.5 kg.",
            (_seats("AR601", free=("9D", "11A")), _policy("animals")),
            "Then yes. Decision: cabin, because she is below 8 kg.",
        ),
        Turn(
            "Add her, but don't spend more than 70 EUR.",
            (airline.change(number, "PETC 7.5 kg added, 60 EUR"), airline.find(number)),
            "Added for 60 EUR.",
        ),
        Turn("What do I need at the gate?", (_policy("animals"),), "Her passport and a closed bag, 46 x 28 x 24 cm."),
    ]


def _trace(case: str, state: str) -> Step:
    return Step("trace_baggage", {"case": case}, f'{{"case": "{case}", "state": "{state}"}}', 0.4)


def _seats(flight: str, *, free: tuple[str, ...]) -> Step:
    rows = [
        f"{row:2d}  " + " ".join(letter if f"{row}{letter}" in free else "x" for letter in "ABCDEF")
        for row in range(5, 30)
    ]
    return Step("seat_map", {"flight": flight}, "\n".join(["row A B C D E F   (x = taken)", *rows]), 0.3)


_POLICIES = {
    "delayed baggage": (
        "Delayed baggage, version 14 of 2026-03-01.\n1. A claim is opened within 21 days. The tag number is enough.\n"
        "2. Necessary purchases are refunded: up to 80 EUR on the first day, 40 EUR on each further day, at most five "
        "days, with receipts. Not in the traveler's home town.\n3. After 21 days a bag counts as lost, and the Montreal "
        "Convention applies: at most 1,519 SDR per traveler.\n4. A courier delivers to any address in the country of arrival."
    ),
    "seat fees": (
        "Seats, version 9 of 2026-06-15.\n1. Light and Standard: 18 EUR, 32 EUR in rows 1 to 4 and at exits. Flex: free.\n"
        "2. A canceled or rebooked flight keeps the kind of seat (aisle, window) without a fee.\n3. Children below 12 sit "
        "beside an adult of the reservation, without a fee."
    ),
    "accounts": (
        "Accounts, version 5 of 2025-11-20.\n1. Agents never ask for a password and never store one that a traveler sends.\n"
        "2. A link to set a new password goes to the address of the account and is valid for 30 minutes.\n3. After ten "
        "failed logins an account waits for 15 minutes."
    ),
    "animals": (
        "Animals, version 11 of 2026-01-10.\n1. Cabin (PETC): dogs and cats up to 8 kg with their bag, 60 EUR per flight, "
        "at most four in a cabin. Closed bag, at most 46 x 28 x 24 cm, under the seat in front.\n2. Hold (AVIH): up to 45 "
        "kg with the crate, 120 EUR, not when it is above 29 degrees at either airport.\n3. Documents: EU pet passport with "
        "a rabies vaccination of 21 days or more.\n4. Not at exits, in row 1, or beside another animal."
    ),
}


def _policy(name: str) -> Step:
    return Step("read_policy", {"name": name}, _POLICIES[name], 0.3)


SESSIONS = (
    PastSession(_story("support-KX3T91", _lost_bag()), timedelta(days=4, hours=2)),
    PastSession(_story("support-LM7Q20", _seat_and_card(), strategy="requirements_ledger"), timedelta(days=1, hours=9)),
    PastSession(_story("support-PT5R44", _dog()), timedelta(hours=2)),
)
