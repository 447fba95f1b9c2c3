"""Records stand below the record that contains them, and a rendered summary can be read again."""

from __future__ import annotations

import itertools

import pytest
from compact.summary.entries import Record
from compact.summary.record_tree import record_lines
from compact.summary.structured_summary import StructuredSummary

ORDER = Record("order_id W-118: items(SKU-1, SKU-2), status=open", order=1)
ITEM = Record("item SKU-1 (order_id W-118): price=12", order=2, parent="order_id W-118")
OTHER_ITEM = Record("item SKU-2 (order_id W-118): price=7", order=3, parent="order_id W-118")
SUPPLIER = Record("supplier AB-9 (item SKU-1): city=Lyon", order=4, parent="item SKU-1")


def test_children_stand_below_their_parent():
    """The list of their ids says nothing more than their lines."""
    lines = list(record_lines([ORDER, ITEM, OTHER_ITEM, SUPPLIER]))
    assert lines == [
        "- order_id W-118: status=open",
        " item SKU-1: price=12",
        "  supplier AB-9: city=Lyon",
        " item SKU-2: price=7",
    ]


def test_a_list_stays_while_one_of_its_records_has_no_line():
    """Otherwise nothing would name that record."""
    assert next(record_lines([ORDER, ITEM])) == "- order_id W-118: items(SKU-1, SKU-2), status=open"


def test_lines_that_only_list_the_records_below_them_are_shown_once():
    """Each time an agent reads an order, it may list other items."""
    lists = [Record(f"order_id W-118: items(SKU-{number})", order=5 + number) for number in (1, 2)]
    heading, *items = record_lines([*lists, ITEM, OTHER_ITEM])
    assert heading == "- order_id W-118:"
    assert items == [" item SKU-1: price=12", " item SKU-2: price=7"]
    first, *items = record_lines([ORDER, *lists, ITEM, OTHER_ITEM])
    assert first == "- order_id W-118: status=open"
    assert items == [" item SKU-1: price=12", " item SKU-2: price=7"]


def test_a_parent_without_a_line_is_a_heading():
    assert list(record_lines([ITEM, OTHER_ITEM])) == [
        "- order_id W-118:",
        " item SKU-1: price=12",
        " item SKU-2: price=7",
    ]


def test_a_long_chain_of_records_is_rendered_and_read_again():
    """Text that looks like a summary may have any depth."""
    names = [f"item SKU-{number}" for number in range(3_000)]
    chain = [
        Record(f"{child} ({parent}): price=7", order=order, parent=parent)
        for order, (parent, child) in enumerate(itertools.pairwise(names))
    ]
    summary = StructuredSummary(records=tuple(chain))
    parsed = StructuredSummary.parse(summary.render())
    assert parsed is not None
    assert [record.text for record in parsed.records] == [record.text for record in chain]
    assert max(len(line) - len(line.lstrip()) for line in summary.render().splitlines()) < 10


def test_records_that_contain_each_other_have_one_line_each():
    first = Record("node N-1 (node N-2): state=up", order=1, parent="node N-2")
    second = Record("node N-2 (node N-1): state=down", order=2, parent="node N-1")
    assert list(record_lines([first, second])) == ["- node N-2:", " node N-1: state=up", "  node N-2: state=down"]


def test_groups_with_the_same_inner_field_are_one_line():
    """A name inside of brackets belongs to its group."""
    name = Record("user_id ada_42: name(first_name=Ada, last_name=King)", order=1)
    friends = Record("user_id ada_42: friends(first_name=Grace, last_name=Hopper)", order=2)
    assert list(record_lines([name, friends])) == [
        "- user_id ada_42: name(first_name=Ada, last_name=King), friends(first_name=Grace, last_name=Hopper)"
    ]


@pytest.mark.parametrize("records", [(ORDER, ITEM), (ITEM, OTHER_ITEM), (ORDER, ITEM, SUPPLIER)])
def test_a_rendered_record_is_read_with_its_parent(records):
    summary = StructuredSummary.parse(StructuredSummary(records=records).render())
    assert summary is not None
    assert [(record.text, record.parent) for record in summary.records] == [
        (record.text, record.parent) for record in records
    ]


def test_the_line_about_recall_is_not_a_record():
    text = StructuredSummary(records=(ORDER,)).render() + "\n[Recall] Ask for more."
    summary = StructuredSummary.parse(text)
    assert summary is not None
    assert [record.text for record in summary.records] == [ORDER.text]
