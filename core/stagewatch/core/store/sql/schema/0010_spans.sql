-- What the collector inserts: one row a segment, decoded by the engine from OTLP protobuf
-- (docs/adr/002-engine-decode-and-spool.md). The frames stand before the bodies in the segment and
-- say, for `n` resource_spans each, whose they are and when they came.
CREATE TABLE IF NOT EXISTS otlp_in
(
    resource_spans Array(Tuple(
        resource Tuple(
            attributes Array(Tuple(key String, value String)),
            dropped_attributes_count UInt32),
        scope_spans Array(Tuple(
            scope Tuple(
                name String,
                version String,
                attributes Array(Tuple(key String, value String)),
                dropped_attributes_count UInt32),
            spans Array(Tuple(
                trace_id String,
                span_id String,
                trace_state String,
                parent_span_id String,
                flags UInt32,
                name String,
                kind Int32,
                start_time_unix_nano UInt64,
                end_time_unix_nano UInt64,
                attributes Array(Tuple(key String, value Tuple(
                    string_value String, bool_value Bool, int_value Int64, double_value Float64,
                    array_value String, kvlist_value String, bytes_value String,
                    value Enum8('unset' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3,
                        'double_value' = 4, 'array_value' = 5, 'kvlist_value' = 6, 'bytes_value' = 7)))),
                dropped_attributes_count UInt32,
                events Array(String),
                dropped_events_count UInt32,
                links Array(String),
                dropped_links_count UInt32,
                status Tuple(message String, code Int32))),
            schema_url String)),
        schema_url String)),
    frames Array(Tuple(project String, received UInt64, n UInt32, hash String, length UInt32))
)
ENGINE = Null
;;
-- Every accepted body, so that an SDK's retry is known again after a restart.
CREATE TABLE IF NOT EXISTS bodies
(
    project LowCardinality(String),
    hash FixedString(16),
    received_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toDate(received_at)
ORDER BY received_at
TTL toDate(received_at) + INTERVAL 2 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000,
    fsync_after_insert = 1, fsync_part_directory = 1,
    min_parts_to_merge_at_once = 8
;;
CREATE MATERIALIZED VIEW IF NOT EXISTS otlp_in_to_bodies TO bodies AS
SELECT
    tupleElement(f, 'project') AS project,
    toFixedString(tupleElement(f, 'hash'), 16) AS hash,
    fromUnixTimestamp64Micro(toInt64(intDiv(tupleElement(f, 'received'), 1000))) AS received_at
FROM (SELECT arrayJoin(frames) AS f FROM otlp_in)
;;
-- One immutable row a span with everything its message held.
-- `attrs` keeps the order and the repeats of the message; `kinds` says of each value what it was:
-- 0 unset, 1 string, 2 bool, 3 int, 4 double (all as text), 5 array, 6 kvlist (raw OTLP bytes of
-- ArrayValue and KeyValueList), 7 bytes. `events` and `links` are raw OTLP messages.
-- `resource` and `scope_attrs` are JSON [keys, values, dropped count]: a value that is text as it is
-- (a text field of an AnyValue is the byte 10, its length and its bytes), any other as a NUL character
-- and the base64 of its AnyValue. In the Null table these values are raw AnyValues: the fewer columns
-- a type has, the cheaper is the view, whose planning is most of what a small insert costs.
-- `duration_ns` is end minus start modulo 2^64, so both times can be had back exactly.
-- `marks`: 1 ends before it starts, 2 times outside received -30 d .. +1 d, 4 parent is itself,
-- 8 parent id of a wrong length.
-- A merge rewrites whole bodies, which costs as much as inserting them: so 16 parts at least at once.
-- The tables beside it merge by 8: their parts of a few rows cost as much to merge as to insert.
CREATE TABLE IF NOT EXISTS spans
(
    project LowCardinality(String),
    day Date CODEC(ZSTD(1)),
    received_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    start_ns UInt64 CODEC(Delta(8), ZSTD(1)),
    duration_ns Int64 CODEC(ZSTD(1)),
    trace_id FixedString(16) CODEC(ZSTD(1)),
    span_id FixedString(8) CODEC(NONE),
    parent_id String CODEC(ZSTD(1)),
    trace_state LowCardinality(String),
    flags UInt32 CODEC(ZSTD(1)),
    service LowCardinality(String),
    name LowCardinality(String),
    kind Int32 CODEC(ZSTD(1)),
    status_code Int32 CODEC(ZSTD(1)),
    status_message String CODEC(ZSTD(1)),
    marks UInt8 CODEC(ZSTD(1)),
    resource LowCardinality(String),
    resource_schema_url LowCardinality(String),
    scope_name LowCardinality(String),
    scope_version LowCardinality(String),
    scope_attrs LowCardinality(String),
    scope_schema_url LowCardinality(String),
    attrs Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    kinds Array(UInt8) CODEC(ZSTD(1)),
    events Array(String) CODEC(ZSTD(1)),
    links Array(String) CODEC(ZSTD(1)),
    dropped_attributes UInt32 CODEC(ZSTD(1)),
    dropped_events UInt32 CODEC(ZSTD(1)),
    dropped_links UInt32 CODEC(ZSTD(1)),
    started_at DateTime64(9, 'UTC') ALIAS fromUnixTimestamp64Nano(toInt64(least(start_ns, 9223372036854775807)), 'UTC'),
    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY day
ORDER BY (project, intDiv(start_ns, 60000000000), xxHash32(trace_id), span_id)
TTL day + INTERVAL 90 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000,
    fsync_after_insert = 1, fsync_part_directory = 1, min_compressed_bytes_to_fsync_after_merge = 1,
    min_parts_to_merge_at_once = 16, min_bytes_for_wide_part = 268435456
;;
CREATE MATERIALIZED VIEW IF NOT EXISTS otlp_in_to_spans TO spans AS
SELECT
    project,
    toDate(toDateTime(least(greatest(
        intDiv(start_ns, 1000000000), intDiv(received, 1000000000) - 2592000),
        intDiv(received, 1000000000) + 86400), 'UTC')) AS day,
    fromUnixTimestamp64Micro(toInt64(intDiv(received, 1000)), 'UTC') AS received_at,
    tupleElement(sp, 'start_time_unix_nano') AS start_ns,
    reinterpretAsInt64(tupleElement(sp, 'end_time_unix_nano') - start_ns) AS duration_ns,
    toFixedString(tupleElement(sp, 'trace_id'), 16) AS trace_id,
    toFixedString(tupleElement(sp, 'span_id'), 8) AS span_id,
    tupleElement(sp, 'parent_span_id') AS parent_id,
    tupleElement(sp, 'trace_state') AS trace_state,
    tupleElement(sp, 'flags') AS flags,
    service,
    tupleElement(sp, 'name') AS name,
    tupleElement(sp, 'kind') AS kind,
    tupleElement(tupleElement(sp, 'status'), 'code') AS status_code,
    tupleElement(tupleElement(sp, 'status'), 'message') AS status_message,
    toUInt8((tupleElement(sp, 'end_time_unix_nano') < start_ns)
        + 2 * (start_ns + 2592000000000000 < received OR start_ns > received + 86400000000000)
        + 4 * (parent_id = tupleElement(sp, 'span_id'))
        + 8 * (length(parent_id) NOT IN (0, 8))) AS marks,
    resource,
    resource_schema_url,
    scope_name,
    scope_version,
    scope_attrs,
    scope_schema_url,
    mapFromArrays(
        arrayMap(k -> toLowCardinality(k), tupleElement(tupleElement(sp, 'attributes'), 'key')),
        arrayMap((t, s, b, i, d, a, kv, by) -> multiIf(
                t = 'string_value', s, t = 'int_value', toString(i), t = 'double_value', toString(d),
                t = 'bool_value', if(b, 'true', 'false'), t = 'array_value', a,
                t = 'kvlist_value', kv, by),
            tupleElement(v, 'value'), tupleElement(v, 'string_value'), tupleElement(v, 'bool_value'),
            tupleElement(v, 'int_value'), tupleElement(v, 'double_value'),
            tupleElement(v, 'array_value'), tupleElement(v, 'kvlist_value'),
            tupleElement(v, 'bytes_value'))) AS attrs,
    arrayMap(t -> toUInt8(t), tupleElement(v, 'value')) AS kinds,
    tupleElement(sp, 'events') AS events,
    tupleElement(sp, 'links') AS links,
    tupleElement(sp, 'dropped_attributes_count') AS dropped_attributes,
    tupleElement(sp, 'dropped_events_count') AS dropped_events,
    tupleElement(sp, 'dropped_links_count') AS dropped_links
FROM
(
    SELECT sp, tupleElement(tupleElement(sp, 'attributes'), 'value') AS v,
        project, received, service, resource, resource_schema_url,
        scope_name, scope_version, scope_attrs, scope_schema_url
    FROM
    (
        SELECT tupleElement(ss, 'spans') AS items,
            project, received, service, resource, resource_schema_url,
            toLowCardinality(tupleElement(tupleElement(ss, 'scope'), 'name')) AS scope_name,
            toLowCardinality(tupleElement(tupleElement(ss, 'scope'), 'version')) AS scope_version,
            toLowCardinality(if(empty(tupleElement(tupleElement(tupleElement(ss, 'scope'), 'attributes'), 'key'))
                    AND tupleElement(tupleElement(ss, 'scope'), 'dropped_attributes_count') = 0, '',
                    toJSONString((
                    tupleElement(tupleElement(tupleElement(ss, 'scope'), 'attributes'), 'key'),
                    arrayMap(x -> if(startsWith(x, '\x0A') AND position(substring(x, 3, 4), '\0') = 0,
                    substring(x, multiIf(length(x) < 130, 3, length(x) < 16387, 4, length(x) < 2097156, 5, 6)),
                    concat('\0', base64Encode(x))), tupleElement(tupleElement(tupleElement(ss, 'scope'), 'attributes'), 'value')),
                    tupleElement(tupleElement(ss, 'scope'), 'dropped_attributes_count'))))) AS scope_attrs,
            toLowCardinality(tupleElement(ss, 'schema_url')) AS scope_schema_url
        FROM
        (
            SELECT tupleElement(rs, 'scope_spans') AS groups,
                toLowCardinality(frame_project) AS project,
                received,
                tupleElement(tupleElement(tupleElement(rs, 'resource'), 'attributes'), 'value')[indexOf(tupleElement(tupleElement(tupleElement(rs, 'resource'), 'attributes'), 'key'), 'service.name')] AS name_value,
                toLowCardinality(if(startsWith(name_value, '\x0A'),
                    substring(name_value, if(length(name_value) < 130, 3, 4)), '')) AS service,
                toLowCardinality(toJSONString((
                tupleElement(tupleElement(tupleElement(rs, 'resource'), 'attributes'), 'key'),
                arrayMap(x -> if(startsWith(x, '\x0A') AND position(substring(x, 3, 4), '\0') = 0,
                substring(x, multiIf(length(x) < 130, 3, length(x) < 16387, 4, length(x) < 2097156, 5, 6)),
                concat('\0', base64Encode(x))), tupleElement(tupleElement(tupleElement(rs, 'resource'), 'attributes'), 'value')),
                tupleElement(tupleElement(rs, 'resource'), 'dropped_attributes_count')))) AS resource,
                toLowCardinality(tupleElement(rs, 'schema_url')) AS resource_schema_url
            FROM otlp_in
            ARRAY JOIN
                resource_spans AS rs,
                arrayFlatten(arrayMap(f -> arrayWithConstant(tupleElement(f, 'n'), tupleElement(f, 'project')), frames)) AS frame_project,
                arrayFlatten(arrayMap(f -> arrayWithConstant(tupleElement(f, 'n'), tupleElement(f, 'received')), frames)) AS received
        )
        ARRAY JOIN groups AS ss
    )
    ARRAY JOIN items AS sp
)
;;
-- Where a trace lies in time and what it is, aggregated again on read (a trace has one row a day).
CREATE TABLE IF NOT EXISTS trace_index
(
    project LowCardinality(String),
    trace_id FixedString(16) CODEC(ZSTD(1)),
    day Date,
    first_ns SimpleAggregateFunction(min, UInt64) CODEC(ZSTD(1)),
    last_ns SimpleAggregateFunction(max, UInt64) CODEC(ZSTD(1)),
    end_ns SimpleAggregateFunction(max, UInt64) CODEC(ZSTD(1)),
    first_received SimpleAggregateFunction(min, DateTime64(6, 'UTC')) CODEC(ZSTD(1)),
    spans SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    errors SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    has_root SimpleAggregateFunction(max, UInt8) CODEC(ZSTD(1)),
    root_name SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    root_service SimpleAggregateFunction(max, String) CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
PARTITION BY day
ORDER BY (project, trace_id)
TTL day + INTERVAL 90 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000,
    fsync_after_insert = 1, fsync_part_directory = 1,
    min_parts_to_merge_at_once = 8
;;
CREATE MATERIALIZED VIEW IF NOT EXISTS spans_to_trace_index TO trace_index AS
SELECT
    project, trace_id, day,
    min(start_ns) AS first_ns,
    max(start_ns) AS last_ns,
    max(start_ns + toUInt64(greatest(duration_ns, 0))) AS end_ns,
    min(received_at) AS first_received,
    count() AS spans,
    countIf(status_code = 2) AS errors,
    toUInt8(max(root)) AS has_root,
    maxIf(toString(name), root) AS root_name,
    maxIf(toString(service), root) AS root_service
FROM
(
    SELECT *, length(parent_id) != 8 OR parent_id = unhex('0000000000000000') OR parent_id = span_id AS root
    FROM spans
)
GROUP BY project, trace_id, day
;;
-- What the assembler polls: which traces got spans or logs, and when the engine saw it.
CREATE TABLE IF NOT EXISTS trace_touch
(
    project LowCardinality(String),
    trace_id FixedString(16) CODEC(ZSTD(1)),
    touched_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    has_root UInt8,
    n UInt32 CODEC(ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toDate(touched_at)
ORDER BY touched_at
TTL toDate(touched_at) + INTERVAL 3 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000,
    fsync_after_insert = 1, fsync_part_directory = 1,
    min_parts_to_merge_at_once = 8
;;
CREATE MATERIALIZED VIEW IF NOT EXISTS spans_to_trace_touch TO trace_touch AS
SELECT
    project, trace_id,
    toUInt8(max(length(parent_id) != 8 OR parent_id = unhex('0000000000000000') OR parent_id = span_id)) AS has_root,
    toUInt32(count()) AS n
FROM spans
GROUP BY project, trace_id
;;
CREATE TABLE IF NOT EXISTS rollup_minute
(
    project LowCardinality(String),
    service LowCardinality(String),
    kind Int32,
    name LowCardinality(String),
    minute DateTime('UTC'),
    spans SimpleAggregateFunction(sum, UInt64),
    errors SimpleAggregateFunction(sum, UInt64),
    duration_ns SimpleAggregateFunction(sum, UInt64),
    duration_quantiles AggregateFunction(quantilesTDigest(0.5, 0.9, 0.95, 0.99), Float32)
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(minute)
ORDER BY (project, service, kind, name, minute)
TTL minute + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000,
    fsync_after_insert = 1, fsync_part_directory = 1,
    min_parts_to_merge_at_once = 8
;;
CREATE MATERIALIZED VIEW IF NOT EXISTS spans_to_rollup_minute TO rollup_minute AS
SELECT
    project, service, kind, name,
    toDateTime(intDiv(least(greatest(intDiv(start_ns, 1000000000),
        toUnixTimestamp(day)), toUnixTimestamp(day) + 86399), 60) * 60, 'UTC') AS minute,
    count() AS spans,
    countIf(status_code = 2) AS errors,
    toUInt64(sum(greatest(spans.duration_ns, 0))) AS duration_ns,
    quantilesTDigestState(0.5, 0.9, 0.95, 0.99)(toFloat32(greatest(spans.duration_ns, 0) / 1e6)) AS duration_quantiles
FROM spans
GROUP BY project, service, kind, name, minute
;;
-- Which attribute keys exist, for autocompletion (numbers inside flattened keys are folded on read).
CREATE TABLE IF NOT EXISTS attr_keys
(
    project LowCardinality(String),
    level LowCardinality(String),
    key String CODEC(ZSTD(1)),
    kind UInt8,
    seen SimpleAggregateFunction(sum, UInt64),
    last_seen SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = AggregatingMergeTree
ORDER BY (project, level, key, kind)
TTL toDateTime(last_seen) + INTERVAL 90 DAY
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1,
    min_parts_to_merge_at_once = 8
;;
CREATE MATERIALIZED VIEW IF NOT EXISTS spans_to_attr_keys TO attr_keys AS
SELECT
    project,
    'span' AS level,
    k AS key,
    kind,
    count() AS seen,
    toDateTime64(max(received_at), 3, 'UTC') AS last_seen
FROM spans
ARRAY JOIN mapKeys(attrs) AS k, kinds AS kind
GROUP BY project, key, kind
