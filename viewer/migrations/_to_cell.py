"""SQL and state of migrations that key a table by cell."""

from django.db import models

# The names of foreign keys, and of the indexes of their columns, differ between databases.
DROP_FOREIGN_KEYS = """
DO $$ DECLARE found record; BEGIN
  FOR found IN SELECT conname AS name FROM pg_constraint WHERE conrelid = '{table}'::regclass AND contype = 'f' LOOP
    EXECUTE format('ALTER TABLE {table} DROP CONSTRAINT %I', found.name);
  END LOOP;
END $$
"""
DROP_INDEX = """
DO $$ DECLARE found record; BEGIN
  FOR found IN SELECT indexrelid::regclass::text AS name FROM pg_index WHERE indrelid = '{table}'::regclass
    AND indkey::text = (SELECT attnum::text FROM pg_attribute WHERE attrelid = indrelid AND attname = '{column}') LOOP
    EXECUTE format('DROP INDEX %s', found.name);
  END LOOP;
END $$
"""
# Each project has one cell.
TO_CELL = """
ALTER TABLE {table} DROP CONSTRAINT {table}_pkey, ALTER COLUMN project_id TYPE bigint USING project_id * 1024
"""
COPY_SEQUENCE = """
SELECT setval('{table}_ids', (SELECT last_value FROM {table}_id_seq), (SELECT is_called FROM {table}_id_seq))
"""


def drop_foreign_keys(table):
    return DROP_FOREIGN_KEYS.format(table=table)


def drop_index(table, column):
    return DROP_INDEX.format(table=table, column=column)


def to_cell(table):
    """Drop the primary key and the foreign keys, and change the project to its cell."""
    return [
        drop_foreign_keys(table),
        drop_index(table, "project_id"),
        TO_CELL.format(table=table),
        f"ALTER TABLE {table} RENAME COLUMN project_id TO cell",
    ]


def to_sequence(table):
    """Replace the identity of the id, which Citus cannot distribute, by a sequence. Ids of deleted rows stay used."""
    return [
        f"CREATE SEQUENCE {table}_ids",
        COPY_SEQUENCE.format(table=table),
        f"ALTER TABLE {table} ALTER COLUMN id DROP IDENTITY",
        f"ALTER SEQUENCE {table}_ids RENAME TO {table}_id_seq",
        f"ALTER SEQUENCE {table}_id_seq OWNED BY {table}.id",
        f"ALTER TABLE {table} ALTER COLUMN id SET DEFAULT nextval('{table}_id_seq')",
    ]


def next_id(sequence):
    return models.Func(models.Value(sequence), function="nextval", output_field=models.BigIntegerField())


def composite(*names):
    return models.CompositePrimaryKey(*names, blank=True, editable=False, primary_key=True, serialize=False)
