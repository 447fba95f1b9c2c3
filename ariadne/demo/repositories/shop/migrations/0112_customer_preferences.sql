ALTER TABLE customers ADD COLUMN preferences json NOT NULL DEFAULT '{}';
