"""Write records to Postgres."""
