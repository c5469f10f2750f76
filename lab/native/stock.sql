-- A stock of 300,000 articles in memory, 60,000 changes drawn by a power law, and sums by shelf: `sqlite3 :memory: < stock.sql`.
PRAGMA temp_store = MEMORY;
CREATE TABLE article (id INTEGER PRIMARY KEY, name TEXT, shelf INTEGER, pieces INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)
INSERT INTO article SELECT i, printf('article %d of some maker', i * 7919 % 300001), i * 104729 % 500, i % 97 FROM n;
CREATE INDEX by_name ON article(name);
CREATE INDEX by_shelf ON article(shelf, pieces);
CREATE TABLE change (id INTEGER, pieces INTEGER);
WITH RECURSIVE n(i, r) AS (SELECT 1, 1 UNION ALL SELECT i + 1, (r * 16807) % 2147483647 FROM n WHERE i < 60000)
INSERT INTO change SELECT CAST(1 + r / 2147483647.0 * (r / 2147483647.0) * 299999 AS INTEGER), r % 11 FROM n;
CREATE INDEX by_article ON change(id, pieces);
UPDATE article SET pieces = pieces + (SELECT sum(pieces) FROM change WHERE change.id = article.id)
  WHERE id IN (SELECT id FROM change);
SELECT shelf, sum(pieces) FROM article GROUP BY shelf ORDER BY 2 DESC LIMIT 5;
SELECT count(*) FROM change JOIN article USING (id) WHERE article.name > 'article 5';
