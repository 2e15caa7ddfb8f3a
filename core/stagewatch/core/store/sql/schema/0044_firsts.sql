-- Who was first to do something that only one may do. A second insert of a key is dropped by the
-- engine, which compares tokens under a lock: the one compare-and-set there is.
CREATE TABLE IF NOT EXISTS firsts
(
    key String,
    owner String,
    at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = MergeTree
ORDER BY key
TTL toDateTime(at) + INTERVAL 1 DAY
SETTINGS non_replicated_deduplication_window = 1000
