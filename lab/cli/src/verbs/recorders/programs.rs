//! The programs that are recorded: one line each, as a shell in the root runs it.

/// How long programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// Seconds each, natively.
    Full,
    /// The shortest runs.
    Small,
}

/// One program.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// Command line, run in the folder with [`files`]; `$N` is one of `numbers`.
    pub(super) command: &'static str,
    /// `$N`, for full and small runs.
    numbers: (u32, u32),
    /// Runs next to `command` once its socket `server.sock` exists, and ends it. Not measured.
    pub(super) load: Option<&'static str>,
}

impl Program {
    /// `$N` for a size.
    pub(super) fn number(&self, size: Size) -> u32 {
        if size == Size::Full { self.numbers.0 } else { self.numbers.1 }
    }
}

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        name: "python",
        command: "exec env PYTHONHASHSEED=0 python3 sessions.py $N",
        numbers: (200_000, 5_000),
        load: None,
    },
    Program { name: "random", command: "exec ./random $N", numbers: (40_000_000, 500_000), load: None },
    Program {
        name: "sqlite",
        command: "sed s/ROWS/$N/ orders.sql > orders.now && exec sqlite3 -batch :memory: '.read orders.now'",
        numbers: (600_000, 2_000),
        load: None,
    },
    Program {
        name: "gcc",
        command: "sed -n 1,${N}p functions.c > some.c && exec gcc -O2 -c some.c -o some.o",
        numbers: (600, 20),
        load: None,
    },
    Program {
        name: "redis",
        command: "exec redis-server --port 0 --unixsocket server.sock --save '' --daemonize no",
        numbers: (100_000, 1_000),
        load: Some(
            "redis-benchmark -s server.sock -n $N -c 20 -r 20000 -d 200 -t set,get -q; redis-cli -s server.sock shutdown nosave",
        ),
    },
    Program { name: "node", command: "exec node objects.js $N", numbers: (400_000, 1_000), load: None },
    Program { name: "threads", command: "exec ./threads $N", numbers: (10_000_000, 100_000), load: None },
    Program {
        name: "make",
        command: "rm -f build/*.o; exec make -s -j1 -C build -f ../Makefile N=$N",
        numbers: (200, 20),
        load: None,
    },
];

/// Files that the programs need, by name.
pub(super) fn files() -> Vec<(&'static str, String)> {
    vec![
        ("sessions.py", include_str!("../../../../../traces/programs/sessions.py").to_owned()),
        ("objects.js", include_str!("../../../../../traces/programs/objects.js").to_owned()),
        ("random.c", RANDOM_C.to_owned()),
        ("threads.c", THREADS_C.to_owned()),
        ("orders.sql", ORDERS_SQL.to_owned()),
        ("functions.c", (0..600).map(function).collect()),
        ("Makefile", MAKEFILE.to_owned()),
        ("measure.py", include_str!("measure.py").to_owned()),
    ]
}

/// Reads all over 256 MiB.
const RANDOM_C: &str = "\
#include <stdlib.h>
int main(int argc, char **argv) {
    unsigned long words = 1UL << 25, x = 1, sum = 0;
    unsigned long *all = malloc(words * 8);
    for (unsigned long i = 0; i < words; i += 512) all[i] = i;
    for (long n = atol(argv[1]); n > 0; n--) {
        x = x * 6364136223846793005UL + 1442695040888963407UL;
        sum += all[x >> 39];
    }
    return sum == 1;
}
";

/// Four threads, each on 16 MiB of its own and now and then on shared memory.
const THREADS_C: &str = "\
#include <pthread.h>
#include <stdlib.h>
static unsigned long shared[1 << 15];
static long count;
static void *work(void *seed) {
    unsigned long words = 1UL << 21, x = (unsigned long)seed;
    unsigned long *own = calloc(words, 8);
    for (long n = count; n > 0; n--) {
        x = x * 6364136223846793005UL + 1442695040888963407UL;
        own[x >> 43]++;
        if (n % 16 == 0) __sync_fetch_and_add(&shared[x >> 49], 1);
    }
    free(own);
    return 0;
}
int main(int argc, char **argv) {
    pthread_t threads[4];
    count = atol(argv[1]);
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)(i + 1));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}
";

const ORDERS_SQL: &str = "\
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer TEXT NOT NULL, amount INTEGER NOT NULL);
INSERT INTO orders WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ROWS)
  SELECT i, printf('customer-%010d', (i * 2654435761) % 4294967296), i % 977 FROM n;
CREATE INDEX by_customer ON orders(customer);
SELECT count(*), sum(o.amount) FROM orders p JOIN orders o ON o.customer = p.customer WHERE p.id % 3 = 0;
SELECT amount % 10, count(*) FROM orders GROUP BY 1 ORDER BY 2 DESC LIMIT 3;
";

/// A file for each number below N, made and compiled.
const MAKEFILE: &str = "\
.PHONY: all
all: $(shell seq -f %g.o $(N))
%.o:
\t@echo 'int f(int x) { return x * $*; }' > $*.c && gcc -O1 -c $*.c -o $@
";

/// One line of C with some work for an optimiser.
fn function(number: usize) -> String {
    format!(
        "int f{number}(int *a, int n) {{ int s = {number}; for (int i = 0; i < n; i++) {{ \
         if (a[i] % {} == 0) s += a[i] * i; else s ^= a[i] >> (i & 7); a[i] = s; }} return s; }}\n",
        number % 17 + 2
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_names_of_their_own_and_their_files() {
        let names: std::collections::BTreeSet<_> = PROGRAMS.iter().map(|program| program.name).collect();
        assert_eq!(names.len(), PROGRAMS.len());
        assert!(PROGRAMS.iter().all(|program| program.number(Size::Small) < program.number(Size::Full)));
        let lines = files().iter().find(|file| file.0 == "functions.c").map(|file| file.1.lines().count());
        let gcc = PROGRAMS.iter().find(|program| program.name == "gcc").map(|gcc| gcc.number(Size::Full) as usize);
        assert_eq!(lines, gcc, "a function a line");
    }
}
