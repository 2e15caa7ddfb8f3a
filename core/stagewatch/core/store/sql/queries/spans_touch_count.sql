-- How many touches there are after a time: the assembler looks back only when some were missed.
-- Served by the primary key of trace_touch.
SELECT count() AS touches
FROM trace_touch
WHERE touched_at > {since:DateTime64(3, 'UTC')}
    AND xxHash32(trace_id) % {shares:UInt32} = {share:UInt32}
