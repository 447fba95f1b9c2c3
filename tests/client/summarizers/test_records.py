"""Structured tool results are records: one line each, the id first, the newest values."""

from __future__ import annotations

import json

import pytest
from compact.messages import Message
from compact.summarizers import ExtractiveSummarizer

from tests.summary_session import Session


@pytest.mark.req("A-SUM-1")
def test_a_record_stays_on_one_line_with_its_id_first():
    """Every value stands with its record, and a child stands below its parent."""
    reservation = {
        "reservation_id": "OBUT9V",
        "cabin": "economy",
        "flights": [{"flight_number": "HAT266", "date": "2024-05-28", "price": 131}],
        "passengers": [{"first_name": "Sofia", "last_name": "Kim"}],
    }
    session = Session("Change my flight to Houston, please.")
    text = session.call("get_reservation", json.dumps(reservation), reservation_id="OBUT9V").text()
    assert (
        "- reservation_id OBUT9V: cabin=economy, passengers(first_name=Sofia, last_name=Kim)\n"
        " flight_number HAT266: date=2024-05-28, price=131\n"
    ) in text


def test_the_lines_of_a_long_record_are_joined():
    """A record is split into lines that can be selected one by one, but its id is shown once."""
    issue = {"identifier": "ENT-221"} | {f"field{number}": f"a value of the issue {number}" for number in range(12)}
    text = Session("Read the issue.").call("get_issue", json.dumps(issue), id="ENT-221").text()
    (line,) = (line for line in text.split("\n") if line.startswith("- record ENT-221: "))
    assert "field0=a value of the issue 0, " in line
    assert line.endswith("field11=a value of the issue 11")


@pytest.mark.parametrize(
    ("key", "kind"),
    [("reservation_id", "reservation_id"), ("headRefOid", "headRefOid"), ("id", "booking"), ("number", "booking")],
)
def test_the_kind_of_a_record_is_the_name_of_its_id(key, kind):
    """Later calls need this name. A bare `id` says nothing, so the name of the list does."""
    result = json.dumps({"bookings": [{key: "74d4fd04a1", "status": "open"}]})
    text = Session("Look it up.").call("look_up", result).text()
    assert f"- {kind} 74d4fd04a1: status=open" in text


def test_a_result_without_an_id_belongs_to_the_id_that_the_call_asked_for():
    """The id of the call's argument is the id of the record."""
    text = Session("Is the order paid?").call("get_order", '{"status": "paid", "total": 75.5}', order_id="W-118").text()
    assert "- order_id W-118: status=paid, total=75.5" in text


def test_a_result_that_repeats_the_id_of_the_call_is_that_record():
    """An internal id is one more field, so that no line has to name two ids."""
    issue = json.dumps({"id": "864b2bd6-8b26-4965", "identifier": "ENT-108", "status": "Todo"})
    text = Session("Read the issue ENT-108.").call("get_issue", issue, id="ENT-108").text()
    assert "- record ENT-108: id=864b2bd6-8b26-4965, status=Todo" in text


def test_objects_without_ids_are_rows_of_a_table():
    """The values of one object stay together, and the names of their fields are written once."""
    legs = [
        {"flight": "AR173", "from": "LIS", "departs": "2026-12-17T17:45Z", "cabin": "economy", "fare_basis": "V80AR"},
        {"flight": "AR511", "from": "ATH", "departs": "2026-12-01T12:45Z", "cabin": "business", "fare_basis": "L27AR"},
    ]
    fees = [{"rule": "R0", "fee_eur": 67}, {"rule": "R1", "fee_eur": 164}, {"rule": "R2", "fee_eur": 115}]
    result = json.dumps({"total_eur": 688, "legs": legs, "fees": fees})
    session = Session("Which legs has order W-118?").call("get_order", result, order_id="W-118")
    first = session.summary()
    assert "order_id W-118: total_eur=688, " in first.render()
    assert (
        "legs(flight, from, departs, cabin, fare_basis: AR173, LIS, 2026-12-17T17:45Z, economy, V80AR; "
        "AR511, ATH, 2026-12-01T12:45Z, business, L27AR)"
    ) in first.render()
    assert "fees(rule, fee_eur: R0, 67; R1, 164; R2, 115)" in first.render()
    assert "fare_basis" not in [entity.name for entity in first.entities]
    again = ExtractiveSummarizer().summarize_span([Message("user", "And now?", id="n")], previous=first, max_tokens=900)
    assert [record.text for record in again.records] == [record.text for record in first.records]


def test_values_without_an_id_stand_under_their_call():
    """Nothing else says what they are about."""
    result = json.dumps({"available": 3, "cheapest": "AR982"})
    text = Session("Find a flight to Toronto.").call("search_flights", result, to="YYZ", day=14).text()
    assert "> search_flights(to=YYZ, day=14)\n available=3, cheapest=AR982" in text


def test_templates_of_addresses_are_not_values_of_a_record():
    """A link with a placeholder takes space and leads nowhere."""
    user = {"user_id": "ada_42", "gists": "https://api.example.com/ada{/gist_id}", "page": "https://example.com/ada"}
    text = Session("Find Ada, please.").call("get_user", json.dumps(user), user_id="ada_42").text()
    assert "- user_id ada_42: page=https://example.com/ada" in text
    assert "gist" not in text


def test_addresses_below_another_one_are_not_values_of_a_record():
    """Everybody can add `/repos` to the address of a user."""
    page = "https://api.example.com/users/ada"
    user = {"user_id": "ada_42", "url": page, "repos_url": f"{page}/repos", "keys_url": f"{page}/keys/7"}
    text = Session("Find Ada, please.").call("get_user", json.dumps(user), user_id="ada_42").text()
    assert f"- user_id ada_42: url={page}\n" in text
    assert "repos" not in text
    assert "keys" not in text


def test_a_long_value_is_not_part_of_its_line():
    """The line gives its length, and its sentences are lines of their own."""
    body = "The gateway gw-7781 closes after 20 seconds. " + "More words follow here. " * 20
    issue = json.dumps({"id": "ENT-194", "state": "open", "body": body})
    text = Session("Read the issue ENT-194.").call("get_issue", issue, issue_id="ENT-194").text()
    assert f"- issue_id ENT-194: state=open, body=<{len(body)} characters>" in text
    assert "The gateway gw-7781 closes after 20 seconds." in text


def test_the_length_of_a_long_value_is_not_an_old_value():
    """A later call may show the beginning of the same text."""
    whole = json.dumps({"id": "ENT-194", "body": "The gateway closes too early. " * 20})
    part = json.dumps({"id": "ENT-194", "body": "The gateway closes too early."})
    session = Session("Read the issue ENT-194.").call("get_issue", whole, issue_id="ENT-194")
    assert "body=The gateway closes too early.\n" in session.call("get_issue", part, issue_id="ENT-194").text() + "\n"


def test_key_value_output_with_an_id_is_one_record():
    """`gh pr view` and similar commands print one field per line."""
    output = "title:\tFix the login\nstate:\tOPEN\nnumber:\t142\nadditions:\t2136\n--\nBody text."
    text = Session("Review the pull request.").call("Bash", output, command="gh pr view 142").text()
    assert "142: title=Fix the login, state=OPEN, additions=2136" in text


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            "| Phase | Condition |\n|---|---|\n| PhaseEnded | files touched |\n| PhaseIdle | normal commit |",
            "- phase PhaseEnded: Condition=files touched\n- phase PhaseIdle: Condition=normal commit",
        ),
        (
            "order,status,total\nW-118,paid,75.50\nW-119,open,12.00\nW-120,open,3.10",
            "- order W-118: status=paid, total=75.50\n- order W-119: status=open, total=12.00",
        ),
        (
            "NAME      READY   STATUS\nweb-7f9c  1/1     Running\ndb-0a1b   0/1     CrashLoopBackOff\n",
            "- name web-7f9c: READY=1/1, STATUS=Running\n- name db-0a1b: READY=0/1, STATUS=CrashLoopBackOff",
        ),
        (
            'Found 2 orders\n{"order_id": "W-118", "status": "paid"}\n{"order_id": "W-119", "status": "open"}\nDone',
            "- order_id W-118: status=paid\n- order_id W-119: status=open",
        ),
    ],
)
def test_rows_of_tables_are_records(output, expected):
    """Markdown, CSV, columns of a command and lines of JSON keep each value with its id and field."""
    assert expected in Session("Which of these have a problem?").call("list", output, path="x").text()


def test_calls_in_code_are_not_the_rows_of_a_table():
    """Each line has two commas, but the parenthesis spans its cells."""
    code = "\n".join(f"logging.{level}(ctx, msg, attrs...)" for level in ("Debug", "Info", "Warn", "Error"))
    summary = Session("How do we log?").call("read", code, path="logger.go").summary()
    assert not summary.records
    assert "logging.Info(ctx, msg, attrs...)" in summary.render()


def test_a_later_result_replaces_the_earlier_one():
    """The newest state is on one line, and a value that changed is marked."""
    session = Session("Cancel reservation K1NW8N.")
    session.call("get", '{"reservation_id": "K1NW8N", "status": "confirmed", "cabin": "economy"}')
    session.call("cancel", '{"reservation_id": "K1NW8N", "status": "canceled"}')
    text = session.text()
    assert "status=canceled (was confirmed)" in text
    assert text.count("reservation_id K1NW8N: ") == 1
    assert "cabin=economy" in text


def test_a_later_result_replaces_a_record_of_an_earlier_summary():
    """Records are merged over several compactions too."""
    first = Session("Cancel reservation K1NW8N.")
    first.call("get", '{"reservation_id": "K1NW8N", "status": "confirmed", "cabin": "economy"}')
    earlier = Message("assistant", first.summary().render(), id="s1")
    later = Session("Go on with it.").call("cancel", '{"reservation_id": "K1NW8N", "status": "canceled"}')
    summary = ExtractiveSummarizer().summarize_span([earlier, *later.messages], max_tokens=800)
    assert [record.text for record in summary.records] == [
        "reservation_id K1NW8N: status=canceled (was confirmed), cabin=economy"
    ]


def test_the_same_id_on_another_day_is_another_record():
    """A flight number is used every day."""
    session = Session("Find a flight to Houston.")
    for day, price in ((27, 130), (28, 122)):
        session.call("search", json.dumps([{"flight_number": "HAT266", "date": f"2024-05-{day}", "price": price}]))
    text = session.text()
    assert "- flight_number HAT266: date=2024-05-27, price=130" in text
    assert "- flight_number HAT266: date=2024-05-28, price=122" in text


def test_the_fields_that_were_used_come_first():
    """The agent asked about the cabin, so the cabin is on the first line of every reservation."""
    session = Session("Which of my reservations are in business?")
    filler = {f"note_{number}": f"text {number} without use" for number in range(12)}
    for code in ("OBUT9V", "K1NW8N", "Q0ZF0J"):
        session.call("get", json.dumps({"reservation_id": code, **filler, "cabin": f"business {code}"}))
    session.messages.append(Message("assistant", "They are business OBUT9V and business K1NW8N.", id="a99"))
    first_lines = [line for line in session.text(max_tokens=2000).split("\n") if "cabin=" in line]
    assert len(first_lines) == 3
    assert all(": cabin=business" in line for line in first_lines)


def _reservation(code: str, origin: str, destination: str) -> str:
    flights = [{"flight_number": f"{code[:3]}{number}", "date": f"2024-05-2{number}"} for number in range(3)]
    profile = {"created_by": f"agent {code}", "note": f"paid by voucher {code}"}
    route = {"origin": origin, "destination": destination}
    return json.dumps({"reservation_id": code, **profile, **route, "flights": flights})


def test_the_record_of_the_last_request_has_the_most_room():
    """The user asks about one of many reservations, and the summary describes it with its flights."""
    session = Session("Help me with my trips, please.")
    routes = {"OBUT9V": ("IAH", "DEN"), "K1NW8N": ("JFK", "SFO"), "Q0ZF0J": ("LGA", "MCO"), "UM3OG5": ("SEA", "DFW")}
    for code, route in routes.items():
        session.call("get", _reservation(code, *route), reservation_id=code)
    session.user("Change the trip from JFK to SFO, please.")
    lines = session.text(max_tokens=200).split("\n")
    first = lines.index("## Records from tool results") + 1
    assert lines[first].startswith("- reservation_id K1NW8N: origin=JFK, destination=SFO")
    flights = {f" flight_number K1N{number}: date=2024-05-2{number}" for number in range(3)}
    assert flights <= {line for line in lines if line.startswith(" flight_number")}


def test_a_record_that_stays_in_the_prompt_takes_less_room():
    """The last message of the assistant describes one flight, so the summary describes the others."""
    session = Session("Which flights are there?")
    for code in ("HAT266", "HAT175", "HAT229"):
        session.call("get", json.dumps({"flight_number": code, "price": f"{code[3:]} dollars", "gate": f"{code}-B"}))
    visible = [Message("assistant", "HAT229 costs 229 dollars. Do you want it?", id="a90")]
    summary = ExtractiveSummarizer().summarize_span(session.messages, visible=visible, max_tokens=90)
    assert "- flight_number HAT266: " in summary.render()
    assert "- flight_number HAT175: " in summary.render()
    assert "- flight_number HAT229: " not in summary.render()


def test_the_other_fields_of_a_record_come_after_the_used_ones():
    """A record that has any line has the one with its status, even if another line is shorter."""
    session = Session("Which of my orders are paid?")
    for number in range(8):
        other = {f"detail_{field}": f"some text {number}{field} without use" for field in range(8)}
        session.call("get", json.dumps({"order_id": f"W-11{number}", **other, "status": f"paid {number}"}))
    session.messages.append(Message("assistant", "Those with the status paid 1, paid 2 and paid 3.", id="a99"))
    lines = [line for line in session.text(max_tokens=400).split("\n") if line.startswith("- order_id")]
    assert lines
    assert all("status=paid" in line for line in lines)


def test_json_of_any_shape_is_read_without_an_error():
    """Deep, empty, numeric and invalid results are kept as text or records."""
    for result in ("[" * 500 + "]" * 500, "{}", "[]", "[1, 2]", '{"id": 7}', '{"id": "a1b2", "x": null}', "{broken"):
        assert Session("Look at this value 42.").call("get", result).summary() is not None


def test_marks_are_removed_from_a_cell_in_pairs():
    """Half of a pair would make the rest of the line look like code."""
    table = (
        "| Flag | Description |\n|---|---|\n| `--local` | Use `a.json` instead of `b.json` |\n| **--all** | `c.json` |"
    )
    text = Session("Which flags are there?").call("Bash", table, command="cat README.md").text()
    assert "- flag --local: Description=Use `a.json` instead of `b.json`" in text
    assert "- flag --all: Description=c.json" in text
