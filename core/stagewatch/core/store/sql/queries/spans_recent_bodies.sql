-- Bodies accepted in the last seconds, asked once at the collector's start so that retries across
-- a restart are known. Served by the primary key of bodies; at most a million.
SELECT project, hex(hash) AS digest
FROM bodies
WHERE received_at > now64(6) - INTERVAL {seconds:UInt32} SECOND
ORDER BY received_at DESC
LIMIT 1000000
