-- Which traces got spans or logs after a time, oldest first: what the assembler polls twice a
-- second. Served by the primary key of trace_touch.
SELECT project, hex(trace_id) AS trace, touched_at, has_root
FROM trace_touch
WHERE touched_at > {since:DateTime64(3, 'UTC')}
    AND xxHash32(trace_id) % {shares:UInt32} = {share:UInt32}
ORDER BY touched_at
LIMIT {limit:UInt64}
