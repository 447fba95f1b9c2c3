"""A rule for SQL: the values of `INSERT` and `COPY` belong to the columns of the statement."""

from __future__ import annotations

import re

from compact.redaction.rules.rule import GAP, Rule, caseless
from compact.redaction.rules.structures.values import is_secret
from compact.redaction.secret_keys import key_rule

_MAX_TUPLES = 200
_TUPLE = re.compile(r"[\s,]{0,40}\((?P<items>(?:[^()'\x1e]|'(?:[^'\\\x1e]|''|\\.)*+'|\([^()\x1e]{0,200}\)){0,4000}+)\)")
_ITEM = re.compile(
    r"""\s{0,20}(?:[NE]?'(?P<quoted>(?:[^'\\]|''|\\.)*+)'|(?P<bare>(?:[^,'()]|\([^()]*\))*+))\s{0,20}(?:,|\Z)"""
)
_ROW = re.compile(r"\r?\n(?!\\\.)(?P<row>[^\n\x1e]{1,4000})")


def _insert_spans(match: re.Match[str]) -> list[tuple[int, int]]:
    columns = [column.strip(' \t\r\n`"[]') for column in match["columns"].split(",")]
    if not any(map(key_rule, columns)):
        return []
    return _tuple_spans(match, columns) if match["values"] else _row_spans(match, columns)


def _tuple_spans(match: re.Match[str], columns: list[str]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    position = match.end()
    for _ in range(_MAX_TUPLES):
        row = _TUPLE.match(match.string, position)
        if row is None:
            break
        position = row.end()
        start = row.start("items")
        for column in columns:
            item = _ITEM.match(match.string, start, row.end("items"))
            if item is None:
                break
            start = item.end()
            if item["quoted"] is not None and is_secret(column, item["quoted"]):
                spans.append(item.span("quoted"))
    return spans


def _row_spans(match: re.Match[str], columns: list[str]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    position = match.end()
    for _ in range(_MAX_TUPLES):
        row = _ROW.match(match.string, position)
        if row is None:
            break
        start, position = row.start("row"), row.end()
        for column, cell in zip(columns, row["row"].split("\t"), strict=False):
            if is_secret(column, cell):
                spans.append((start, start + len(cell)))
            start += len(cell) + 1
    return spans


SQL = (
    Rule(
        "named_value",
        "secret",
        ("insert into ", "replace into ", "copy "),
        caseless(
            rf"""(?:insert[ ]into|replace[ ]into|copy)[ ][\w."`\[\]]{{1,128}}+{GAP}{{0,8}}\((?P<columns>[^()'\x1e]{{1,2000}}+)\){GAP}{{0,8}}
            (?:(?P<values>values)|from[ ]stdin[^\n\x1e]{{0,80}})"""
        ),
        spans=_insert_spans,
        starts_with_literal=True,
    ),
)
