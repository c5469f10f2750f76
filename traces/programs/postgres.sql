-- A load on pgbench's tables for `postgres --single -j`. Accounts are picked with skew and lie anywhere; a third of the rounds
-- changes one; now and then a report reads a tenth of the table. One command with a transaction per 50 rounds.
DO $$
DECLARE
    accounts int := (SELECT count(*) FROM pgbench_accounts);
    picked bigint;
    total bigint;
BEGIN
    PERFORM setseed(0.13);
    FOR round IN 1..85000 LOOP
        picked := 1 + (floor(power(random(), 4) * accounts)::bigint * 7919) % accounts;
        SELECT abalance INTO total FROM pgbench_accounts WHERE aid = picked;
        SELECT sum(abalance) INTO total FROM pgbench_accounts WHERE aid BETWEEN picked AND picked + 100;
        IF round % 3 = 0 THEN
            UPDATE pgbench_accounts SET abalance = abalance + round % 1000 - 500 WHERE aid = picked;
            INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, picked, 1, now());
        END IF;
        IF round % 2000 = 0 THEN
            SELECT sum(part.total) INTO total FROM (
                SELECT abalance % 100 AS class, sum(abalance) AS total FROM pgbench_accounts
                WHERE aid BETWEEN picked AND picked + accounts / 10 GROUP BY class
            ) AS part;
        END IF;
        IF round % 50 = 0 THEN
            COMMIT;
        END IF;
    END LOOP;
END $$;

