"""Create the sequence numbers and locks of cells, which replace one sequence for all projects.

Nothing is copied: the new numbers start at the microseconds since 1970, far above the old ones.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ingest", "0020_packed_data")]
    operations = [
        migrations.CreateModel(
            name="Cell",
            fields=[
                ("cell", models.BigIntegerField(primary_key=True, serialize=False)),
                ("seq", models.BigIntegerField()),
            ],
        ),
        migrations.RunSQL("DROP SEQUENCE ingest_seq"),
    ]
