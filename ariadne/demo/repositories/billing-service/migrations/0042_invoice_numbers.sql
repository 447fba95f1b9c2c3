-- Applied to production on 2026-09-16.
CREATE TABLE invoice_numbers (
    id integer PRIMARY KEY CHECK (id = 1),
    last bigint NOT NULL
);
INSERT INTO invoice_numbers VALUES (1, 20000);
ALTER TABLE invoices ADD CONSTRAINT invoices_number UNIQUE (number);
