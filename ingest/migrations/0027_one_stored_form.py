"""Convert payloads and data that earlier versions stored as jsonb, and compute the hash of arguments again.

The hash was that of the text of jsonb, which orders keys by their length. Each batch of rows is one transaction, and a
migration that was interrupted can be repeated: rows that have the new form stay as they are.
"""

from functools import partial

from django.db import migrations

from ingest.decoding.tool_arguments import arguments_hash
from ingest.storage.payloads import UnreadablePayload, decode, decode_data, pack, pack_data, unpack

BATCH = 500
PARTITIONS = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'ingest_span'::regclass ORDER BY 1"
KEY = "cell, session_key, session_day, trace_id, span_id"
READ = f"""
SELECT {KEY}, kind, coalesce(packed_data, '\\x01'::bytea || convert_to(data::text, 'UTF8')),
  coalesce(packed_payload, '\\x01'::bytea || convert_to(payload::text, 'UTF8'))
FROM {{partition}} WHERE (data IS NOT NULL OR payload IS NOT NULL OR arguments_hash IS NOT NULL){{after}}
ORDER BY {KEY} LIMIT {BATCH}
"""  # noqa: S608 - constants
AFTER = f" AND ({KEY}) > (%s, %s, %s, %s, %s)"
WRITE = """
UPDATE {partition} s
SET packed_data = k.data, packed_payload = k.payload, arguments_hash = k.hash, data = NULL, payload = NULL
FROM unnest(%s::bigint[], %s::uuid[], %s::date[], %s::text[], %s::text[], %s::bytea[], %s::bytea[], %s::bigint[])
  k (cell, session_key, session_day, trace_id, span_id, data, payload, hash)
WHERE (s.cell, s.session_key, s.session_day, s.trace_id, s.span_id)
  = (k.cell, k.session_key, k.session_day, k.trace_id, k.span_id)
"""


def convert(_apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(PARTITIONS)
        for (partition,) in cursor.fetchall():
            convert_partition(cursor, partition)


def convert_partition(cursor, partition):
    position = []
    while True:
        cursor.execute(READ.format(partition=partition, after=AFTER if position else ""), position)
        rows = cursor.fetchall()
        if not rows:
            return
        columns = zip(*map(convert_row, rows), strict=True)
        cursor.execute(WRITE.format(partition=partition), [list(column) for column in columns])
        position = rows[-1][:5]


def convert_row(row):
    *key, kind, data, payload = row
    digest = arguments_hash(kind, decode_data(data), decode(payload))
    return (*key, repack(data, pack_data), repack(payload, partial(pack, kind=kind)), digest)


def repack(stored, pack):
    if stored is None:
        return None
    try:
        return pack(unpack(bytes(stored)))
    except UnreadablePayload:  # reported where it is read
        return stored


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ingest", "0026_cells_of_sessions")]
    operations = [migrations.RunPython(convert, migrations.RunPython.noop)]
