//! docs/spec/page-table-profiling.md#s9-2 and the table of section 6.3: the probability that a probe is positive, in closed form. The
//! figures show what the strategies can find; floats occur here only.

/// P(bit set) of an entry above `hot_pages` pages, each accessed `lambda` times an interval on average.
fn seen(lambda: f64, hot_pages: f64) -> f64 {
    1.0 - (-lambda * hot_pages).exp()
}

/// P(at least one of `n`), each with `p`.
fn any(p: f64, n: i32) -> f64 {
    1.0 - (1.0 - p).powi(n)
}

/// P(count >= `least` of `n`), each with `p`.
fn at_least(p: f64, n: u32, least: u32) -> f64 {
    let term = |k: u32| {
        let ways: f64 = (0..k).map(|i| f64::from(n - i) / f64::from(k - i)).product();
        ways * p.powi(i32::try_from(k).unwrap()) * (1.0 - p).powi(i32::try_from(n - k).unwrap())
    };
    1.0 - (0..least).map(term).sum::<f64>()
}

/// Accesses a page and interval: `rate` accesses/s over `hot_gib`, intervals of `interval_ms`.
fn lambda(rate: f64, hot_gib: f64, interval_ms: f64) -> f64 {
    rate * interval_ms / 1000.0 / (hot_gib * 262_144.0)
}

#[test]
fn examples_of_section_9_2() {
    let small = 10.0 / 5120.0;
    let leaf = 10.0 / 512.0 * seen(lambda(2e6, 10.0, 5.0), 1.0);
    let (ten, eleven) = (10.0 / 512.0, 11.0 / 512.0);
    let pmd = seen(lambda(2e6, 10.0, 5.0), 512.0);
    let rows: [(&str, f64, f64); 23] = [
        ("D1", any(0.1, 40), 0.985_219),
        ("D2", any(0.1, 20), 0.878_423),
        ("D3", any(0.01, 40), 0.331_028),
        ("D4", any(small, 40), 0.075_222),
        ("D5", any(small, 20), 0.038_346),
        ("D6", any(0.05, 20), 0.641_514),
        ("D7", (0.05f64.ln() / 0.9f64.ln()).ceil(), 29.0),
        ("D7", (0.05f64.ln() / (1.0 - small).ln()).ceil(), 1533.0),
        ("D8", leaf, 7.4364e-5),
        ("D8", any(leaf, 40), 0.002_970_2),
        ("D8", (1.0 / any(leaf, 40)).round(), 337.0),
        ("D9", any(ten, 40), 0.545_692),
        ("D9", ten * 40.0, 0.781_25),
        ("D9", 1.0 / any(ten, 40), 1.8325),
        ("D10", any(eleven, 40), 0.580_521),
        ("D11", at_least(ten, 40, 4), 0.007_596),
        ("D11", at_least(eleven, 40, 4), 0.010_519),
        ("D12", lambda(2e6, 10.0, 5.0), 0.003_814_7),
        ("D12", pmd, 0.858_170),
        ("D13", lambda(2e6, 10.0, 200.0), 0.152_588),
        ("D13", seen(lambda(2e6, 10.0, 200.0), 1.0), 0.141_517),
        ("D14", any(pmd, 3), 0.997_147),
        ("D18", 2f64.ln() / 0.005, 138.629),
    ];
    for (id, got, expected) in rows {
        assert!((got / expected - 1.0).abs() < 2e-4, "{id}: {got}, expected {expected}");
    }
}

/// docs/spec/page-table-profiling.md#s6-3, the table: (hot GiB, rate, lambda, page, 2 MiB).
#[test]
fn a_probe_sees_more_the_higher_it_looks() {
    let rows = [
        (0.1, 2e6, 0.3815, 0.317, 1.0),
        (1.0, 2e6, 0.038_15, 0.0374, 1.0),
        (10.0, 2e6, 0.003_815, 0.003_81, 0.858),
        (0.1, 1e7, 1.907, 0.852, 1.0),
        (1.0, 1e7, 0.1907, 0.174, 1.0),
        (10.0, 1e7, 0.019_07, 0.0189, 0.99994),
    ];
    for (hot_gib, rate, expected_lambda, page, pmd) in rows {
        let lambda = lambda(rate, hot_gib, 5.0);
        for (got, expected) in [(lambda, expected_lambda), (seen(lambda, 1.0), page), (seen(lambda, 512.0), pmd)] {
            assert!((got / expected - 1.0).abs() < 3e-3, "{hot_gib} GiB at {rate}/s: {got}, expected {expected}");
        }
    }
}
