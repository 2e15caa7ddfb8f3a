-- What people say. Append-only; the newest row of a key wins.
CREATE TABLE IF NOT EXISTS feedback
(
    project LowCardinality(String),
    feedback_id String,
    trace_id String CODEC(ZSTD(1)),
    turn_id String CODEC(ZSTD(1)),
    kind LowCardinality(String),
    comment String CODEC(ZSTD(1)),
    corrected_answer String CODEC(ZSTD(1)),
    source LowCardinality(String),
    external_id String CODEC(ZSTD(1)),
    by String,
    at DateTime64(3, 'UTC'),
    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (project, source, external_id)
;;
-- Turns in the review queue: state is open, accepted, rejected or promoted.
CREATE TABLE IF NOT EXISTS flags
(
    project LowCardinality(String),
    turn_id String,
    reason LowCardinality(String),
    state LowCardinality(String),
    note String CODEC(ZSTD(1)),
    by String,
    at DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (project, turn_id, reason)
;;
-- Hand labels for calibration: what a person says of one item that a judge has read too.
CREATE TABLE IF NOT EXISTS labels
(
    project LowCardinality(String),
    label_id String,
    turn_id String,
    metric LowCardinality(String),
    item String CODEC(ZSTD(1)),
    label LowCardinality(String),
    by String,
    at DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (project, metric, turn_id, label_id)
;;
CREATE TABLE IF NOT EXISTS dataset_rows
(
    project LowCardinality(String),
    dataset LowCardinality(String),
    row_id String,
    version_added UInt32,
    status LowCardinality(String),
    kind LowCardinality(String),
    failure LowCardinality(String),
    question String CODEC(ZSTD(1)),
    turn_id String,
    body String CODEC(ZSTD(1)),
    at DateTime64(6, 'UTC')
)
ENGINE = MergeTree
ORDER BY (project, dataset, row_id, at)
;;
-- Immutable: which body of which row a version holds (row id and the time of its body).
CREATE TABLE IF NOT EXISTS dataset_versions
(
    project LowCardinality(String),
    dataset LowCardinality(String),
    version UInt32,
    rows Array(Tuple(row_id String, at DateTime64(6, 'UTC'))),
    note String,
    by String,
    at DateTime64(3, 'UTC')
)
ENGINE = MergeTree
ORDER BY (project, dataset, version)
;;
CREATE TABLE IF NOT EXISTS runs
(
    project LowCardinality(String),
    run_id String,
    plan_id String,
    body String CODEC(ZSTD(1)),
    at DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (project, run_id)
;;
CREATE TABLE IF NOT EXISTS run_rows
(
    project LowCardinality(String),
    run_id String,
    row_id String,
    verdict LowCardinality(String),
    body String CODEC(ZSTD(1)),
    at DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (project, run_id, row_id)
;;
-- Small things that are edited by people: keys, rules, plans, probes, alerts, views, projects.
CREATE TABLE IF NOT EXISTS documents
(
    collection LowCardinality(String),
    project LowCardinality(String),
    id String,
    body String CODEC(ZSTD(1)),
    deleted Bool,
    at DateTime64(6, 'UTC')
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (collection, project, id)
;;
CREATE TABLE IF NOT EXISTS audit
(
    project LowCardinality(String),
    by String,
    action LowCardinality(String),
    subject String,
    detail String CODEC(ZSTD(1)),
    at DateTime64(3, 'UTC')
)
ENGINE = MergeTree
ORDER BY (project, at)
