-- Where some traces lie in time, how large and how old they are: asked before their spans are read,
-- so that the span query reads few partitions and granules. Served by the primary key of
-- trace_index. The ids come as one text: a list of hundreds of literals is slow to analyse.
SELECT
    hex(trace_id) AS trace,
    sum(spans) AS stored,
    min(first_received) AS first_received,
    min(first_ns) AS first_ns,
    max(last_ns) AS last_ns,
    min(day) AS first_day,
    max(day) AS last_day
FROM trace_index
WHERE project = {project:String}
    AND trace_id IN (SELECT toFixedString(substring(unhex({ids:String}), 1 + 16 * number, 16), 16)
        FROM numbers({count:UInt32}))
GROUP BY trace_id
