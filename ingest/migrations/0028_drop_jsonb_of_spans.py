"""Drop the columns of jsonb, and give their names to the stored form that is left."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ingest", "0027_one_stored_form")]
    operations = [
        migrations.RunSQL(
            [
                "ALTER TABLE ingest_span DROP COLUMN data, DROP COLUMN payload",
                "ALTER TABLE ingest_span RENAME COLUMN packed_data TO data",
                "ALTER TABLE ingest_span RENAME COLUMN packed_payload TO payload",
            ],
            state_operations=[
                migrations.RemoveField("span", "data"),
                migrations.RemoveField("span", "payload"),
                migrations.RenameField("span", "packed_data", "data"),
                migrations.RenameField("span", "packed_payload", "payload"),
                migrations.AlterField("span", "data", models.BinaryField(null=True)),
            ],
        )
    ]
