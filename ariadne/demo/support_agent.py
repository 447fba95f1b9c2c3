"""The story of a support agent. A summary omits a rule of the customer, and the retention check restores it."""

from __future__ import annotations

from collections.abc import Iterator

from ariadne.demo.airline import Airline, leg, traveler
from ariadne.demo.script import Story, Turn

SYSTEM = (
    "You are a service agent of Aria Airlines. Policy: refunds above 400 EUR need a supervisor; never change a booking "
    "without the traveler's explicit yes; compensation is paid once per reservation."
)
OMITTED_RULE = "Do not book anything over 900 EUR without asking me."
TOOLS = ("find_reservation", "search_flights", "change_booking", "open_case")


def _reservations() -> dict[str, dict[str, object]]:
    outbound = leg("AR210", "OTP", "YYZ", "2026-12-14T09:20", "2026-12-14T14:05", state="canceled, crew shortage")
    back = leg("AR511", "YYZ", "OTP", "2026-12-22T13:10", "2026-12-23T06:40")
    return {
        "QX7PLM": {
            "travelers": [traveler("MARIN/IOANA MS", "618-2240019377", "12C")],
            "legs": [outbound, back],
            "fare": {"family": "Standard", "paid_eur": 512, "refundable": "yes, the airline canceled"},
            "contact": "phone only",
        },
        "QX7PLN": {
            "travelers": [traveler("MARIN/ELENA MISS (CHD 9)", "618-2240019378", "12B")],
            "legs": [outbound, back],
            "fare": {"family": "Standard", "paid_eur": 384, "refundable": "yes, the airline canceled"},
            "linked_to": "QX7PLM",
        },
    }


def _turns() -> Iterator[Turn]:
    airline = Airline(_reservations())
    lisbon = [
        leg("AR318", "OTP", "LIS", "2026-12-14T06:10", "2026-12-14T08:35"),
        leg("AR482", "LIS", "YYZ", "2026-12-14T13:05", "2026-12-14T16:40"),
    ]
    yield Turn(
        "My flight was canceled. Reservation QX7PLM, name Ioana Marin. I only want aisle seats, and must be in Toronto by "
        "18:00 on the 14th.",
        (
            airline.find("QX7PLM"),
            airline.search(
                "OTP",
                "YYZ",
                "2026-12-14",
                ("AR318", "LIS", "06:10", "16:40", 870),
                ("AR144", "FRA", "07:45", "18:25", 640),
            ),
        ),
        "I am sorry, Ms Marin. I have QX7PLM here: aisle seats, in Toronto by 18:00 on the 14th. Through Frankfurt you "
        "would arrive at 18:25, which is too late. Let me look further.",
    )
    yield Turn(
        OMITTED_RULE,
        (
            airline.search(
                "OTP",
                "YYZ",
                "2026-12-13",
                ("AR210", "", "09:20", "14:05", 1_140),
                ("AR144", "FRA", "07:45", "18:25", 590),
            ),
        ),
        "Noted: nothing above 900 EUR without your yes.",
    )
    yield Turn(
        "What about going through Lisbon?",
        (
            airline.search(
                "OTP", "LIS", "2026-12-14", ("AR318", "", "06:10", "08:35", 180), ("AR322", "", "10:00", "12:25", 240)
            ),
            airline.search(
                "LIS", "YYZ", "2026-12-14", ("AR482", "", "13:05", "16:40", 690), ("AR486", "", "18:30", "22:00", 540)
            ),
        ),
        "Through Lisbon there is AR482, 870 EUR in all, in Toronto at 16:40.",
    )
    yield Turn(
        "Yes, take that one. Also my daughter travels with me, reservation QX7PLN. She is vegetarian.",
        (
            airline.find("QX7PLN"),
            airline.reject(
                "QX7PLM",
                "rebook to AR318 and AR482",
                code="FARE_EXPIRED",
                message="The fare was held for 15 minutes. Search again.",
            ),
            airline.search("LIS", "YYZ", "2026-12-14", ("AR482", "", "13:05", "16:40", 690)),
            airline.change(
                "QX7PLM",
                "rebooked to AR318 and AR482",
                legs=[*lisbon, _back("AR511", "13:10")],
                travelers=[traveler("MARIN/IOANA MS", "618-2240019377", "18C")],
            ),
            airline.change(
                "QX7PLN",
                "rebooked to AR318 and AR482",
                legs=[*lisbon, _back("AR511", "13:10")],
                travelers=[traveler("MARIN/ELENA MISS (CHD 9)", "618-2240019378", "18D", meal="vegetarian")],
            ),
        ),
        "Booked AR482 for both, 18C for you and 18D across the aisle, with a vegetarian meal for QX7PLN.",
    )
    yield Turn(
        "The old ticket should be refunded to the card 5555 5555 5555 4444, which ends in 4444.",
        (airline.find("QX7PLM"),),
        "The refund of 512 EUR goes to the card ending 4444.",
    )
    yield Turn(
        "Is the refund above your limit? Then ask your supervisor.",
        (
            airline.open_case(
                "supervisor approval", "SR-8841", reservation="QX7PLM", eur=512, reason="refund above 400 EUR"
            ),
        ),
        "512 EUR is above 400, so my supervisor must approve; request SR-8841 is open.",
    )
    yield Turn(
        "Please add a bag, 23 kg, for both of us.",
        (
            airline.reject(
                "QX7PLM",
                "add bag 23 kg",
                code="FARE_EXPIRED",
                message="The price of the bag changed from 28 to 30 EUR. Confirm it.",
            ),
            airline.change(
                "QX7PLM",
                "bag 23 kg added, 30 EUR",
                travelers=[traveler("MARIN/IOANA MS", "618-2240019377", "18C", bags=1)],
            ),
            airline.change(
                "QX7PLN",
                "bag 23 kg added, 30 EUR",
                travelers=[traveler("MARIN/ELENA MISS (CHD 9)", "618-2240019378", "18D", meal="vegetarian", bags=1)],
            ),
        ),
        "Two bags of 23 kg added, 60 EUR in all.",
    )
    yield Turn("What seats do we have now?", (airline.find("QX7PLM"), airline.find("QX7PLN")), "18C and 18D.")
    yield Turn(
        "And the compensation? You said 600 EUR each.",
        (
            airline.open_case(
                "compensation", "CMP-20417", reservation="QX7PLM", eur=600, rule="EC 261/2004, over 3,500 km"
            ),
            airline.open_case(
                "compensation", "CMP-20418", reservation="QX7PLN", eur=600, rule="EC 261/2004, over 3,500 km"
            ),
        ),
        "600 EUR each, paid once per reservation: case CMP-20417 and CMP-20418.",
    )
    yield Turn(
        "Send the confirmation to my work address, ioana.marin@example.org.",
        (airline.change("QX7PLM", "confirmation sent by e-mail", contact="e-mail"),),
        "Sent.",
    )
    yield Turn(
        "Can you repeat what you still owe me?",
        (airline.find("QX7PLM"),),
        "Open: refund SR-8841 (512 EUR), compensation CMP-20417 and CMP-20418.",
    )
    yield Turn(
        "One more thing: the return flight on the 22nd, can it be the evening one?",
        (
            airline.search(
                "YYZ",
                "OTP",
                "2026-12-22",
                ("AR517", "LIS", "20:45", "23:59", 410),
                ("AR511", "", "13:10", "23:40", 380),
            ),
        ),
        "AR517 leaves at 20:45 on the 22nd; the change costs 35 EUR each. Do you want it?",
    )
    yield Turn(
        "Yes, change the return.",
        (
            airline.reject(
                "QX7PLN",
                "rebook to AR517",
                code="FARE_EXPIRED",
                message="The fare was held for 15 minutes. Search again.",
            ),
            airline.change("QX7PLM", "return changed to AR517, 35 EUR", legs=[*lisbon, _back("AR517", "20:45")]),
            airline.change("QX7PLN", "return changed to AR517, 35 EUR", legs=[*lisbon, _back("AR517", "20:45")]),
        ),
        "Done: AR517 on the 22nd for both.",
    )
    yield Turn("Thank you. What did I ask you never to do?", (), "Never book anything over 900 EUR without asking you.")


def _back(flight: str, departs: str) -> dict[str, object]:
    return leg(flight, "YYZ", "OTP", f"2026-12-22T{departs}", "2026-12-23T14:20")


STORY = Story(
    session_id="support-QX7PLM",
    agent="service",
    model="gpt-5-mini",
    window_tokens=6_500,
    system=SYSTEM,
    turns=tuple(_turns()),
    live_from=12,
    tools=TOOLS,
    strategy="requirements_ledger",
    summarizer_omits=OMITTED_RULE,
)
