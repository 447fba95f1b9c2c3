"""Rules for the structures in which names and values occur: fields, options, calls, tags, tables and SQL.

The structure says which text is the name and which is the value. `secret_names` says which names are secret.
"""

from __future__ import annotations

from compact.redaction.rules.structures.fields import FIELDS
from compact.redaction.rules.structures.sql import SQL
from compact.redaction.rules.structures.tables import TABLES

__all__ = ["STRUCTURES"]

STRUCTURES = (*FIELDS, *TABLES, *SQL)
