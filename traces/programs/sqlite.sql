-- Orders with a secondary index larger than the cache: bulk load, index build, then lookups in a skewed order, updates of the
-- hot part, and a report that scans everything. The database lies in memory of the page cache, mapped (mmap_size).
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -8192;
PRAGMA mmap_size = 268435456;
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer TEXT NOT NULL, amount INTEGER NOT NULL, note TEXT NOT NULL);
-- 1 100 000 orders; customers are spread by a multiplicative hash, so that the index is built and used in random order.
INSERT INTO orders
  WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1100000)
  SELECT i, printf('customer-%010d', (i * 2654435761) % 4294967296), i % 977,
         'a note about this order that is somewhat long ' || i
  FROM n;
CREATE INDEX by_customer ON orders(customer);
-- Skewed lookups through the index: the square of an even number lies near 0 most often.
WITH RECURSIVE n(i, x) AS (SELECT 1, 12345 UNION ALL SELECT i + 1, (x * 1103515245 + 12345) % 2147483648 FROM n WHERE i < 320000)
SELECT count(*), sum(o.amount)
FROM n CROSS JOIN orders o INDEXED BY by_customer
ON o.customer = printf('customer-%010d', (((x % 548) * (x % 547) + 1) * 2654435761) % 4294967296);
-- The hot tenth is updated, three times.
UPDATE orders SET amount = amount + 1 WHERE id % 7 = 0 AND id < 110000;
UPDATE orders SET amount = amount + 1 WHERE id % 5 = 0 AND id < 110000;
UPDATE orders SET amount = amount + 1 WHERE id % 3 = 0 AND id < 110000;
-- The report.
SELECT amount % 10, count(*), avg(length(note)) FROM orders GROUP BY 1 ORDER BY 2 DESC LIMIT 3;
