"""Drop the stored parts of compaction pages. Web processes keep those of recent pages in memory."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("viewer", "0006_compaction_parts")]
    operations = [migrations.DeleteModel("CompactionParts"), migrations.DeleteModel("CompactionArrivals")]
