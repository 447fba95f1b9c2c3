"""Start and supervise the processes behind `make up`."""
