-- Where traces lie in time, so that the span query reads few partitions and granules.
-- Asked before every read of spans; served by the primary key of trace_index.
SELECT
    min(first_ns) AS first_ns,
    max(last_ns) AS last_ns,
    min(day) AS first_day,
    max(day) AS last_day,
    sum(spans) AS stored
FROM trace_index
WHERE project = {project:String}
    AND trace_id IN arrayMap(x -> toFixedString(unhex(x), 16), {ids:Array(String)})
