-- The short form of a row: verdict, stage and scores without texts. Comparing two runs of 10,000
-- rows reads this column alone.
ALTER TABLE run_rows ADD COLUMN IF NOT EXISTS summary String CODEC(ZSTD(1)) AFTER verdict
