//! Trials of a simulated machine: noise that hangs together, a drift, heavy tails, and what a switch leaves behind.

use super::*;

/// Numbers that look like chance.
struct Chance(u64);

impl Chance {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Student's t with three degrees: one second in some hundred is far out.
    fn heavy(&mut self) -> f64 {
        let squares: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
        self.normal() / (squares / 3.0).sqrt()
    }
}

const BLOCK_S: usize = 120;
const WARM_UP_S: usize = 30;

/// One trial: its announced pairs, and its verdict. `effect` is what B adds, a share.
fn trial(seed: u64, effect: f64) -> (usize, Verdict) {
    let (mut chance, mut order) = (Chance(seed.wrapping_mul(7919)), Order::new(seed));
    let (mut noise, mut drift, mut after) = (0.0, 0.0, 0.0);
    let mut block = |arm: Arm| {
        let level = 100.0 * if arm == Arm::B { 1.0 + effect } else { 1.0 };
        let mut sum = 0.0;
        for second in 0..BLOCK_S {
            // A state that fades within half a minute, a noise that fades within ten seconds, a drift that stays.
            after += (level - 100.0 - after) / 8.0;
            noise = 0.9 * noise + 3.0 * chance.heavy();
            drift += 0.05 * chance.normal();
            if second >= WARM_UP_S {
                sum += 100.0 + after + noise + drift;
            }
        }
        sum / (BLOCK_S - WARM_UP_S) as f64
    };
    let mut differences = Vec::new();
    let mut plan: Option<Plan> = None;
    loop {
        let [first, second] = order.next_pair();
        let (one, other) = (block(first), block(second));
        let (a, b) = if first == Arm::A { (one, other) } else { (other, one) };
        differences.push(difference(a, b));
        if differences.len() == PILOT_PAIRS {
            plan = Some(super::plan(&differences, 0.05, 400));
        }
        let Some(plan) = &plan else { continue };
        let look = plan.looks.iter().find(|look| look.0 == differences.len());
        let Some((at, alpha)) = look else { continue };
        let analysis = analyse(&differences, *alpha).expect("pairs");
        if let Some(verdict) = judge(&analysis, 0.05, *at == plan.pairs) {
            return (plan.pairs, verdict);
        }
    }
}

/// The bar: at most 5 false alarms of 100. `ISOTHERM_TRIALS=5000` is a long run.
#[test]
fn equal_settings_are_called_different_in_at_most_five_of_a_hundred() {
    let trials: u64 = std::env::var("ISOTHERM_TRIALS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let verdicts: Vec<Verdict> = (0..trials).map(|seed| trial(seed, 0.0).1).collect();
    let alarms = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::More { .. })).count();
    let same = verdicts.iter().filter(|verdict| **verdict == Verdict::Same).count();
    println!("false alarms {alarms}, the same {same}, of {trials}");
    assert!(alarms as u64 * 20 <= trials, "{alarms} of {trials}");
    assert!(same as u64 * 2 >= trials, "{same} of {trials}");
}

/// The bar: 80 of 100 find a difference of 5 %, on the right side, in the time that was announced.
#[test]
fn a_difference_of_five_percent_is_found_in_the_announced_time() {
    for (effect, arm) in [(0.05, Arm::B), (-0.05, Arm::A)] {
        let trials: Vec<(usize, Verdict)> = (1000..1100).map(|seed| trial(seed, effect)).collect();
        let found = trials.iter().filter(|trial| trial.1 == Verdict::More { arm }).count();
        let mut pairs: Vec<usize> = trials.iter().map(|trial| trial.0).collect();
        pairs.sort_unstable();
        println!("{effect}: found {found} of 100; announced {} pairs in the median, {} at most", pairs[50], pairs[99]);
        assert!(found >= 80, "{effect}: {found}");
        let wrong =
            trials.iter().filter(|(_, verdict)| matches!(verdict, Verdict::More { arm: other } if *other != arm));
        assert_eq!(wrong.count(), 0);
    }
}

#[test]
fn what_looks_spend_is_what_is_allowed() {
    for pairs in [6, 7, 8, 13, 40, 399] {
        let looks = looks(pairs);
        assert_eq!(looks.last().unwrap().0, pairs);
        assert!(looks.windows(2).all(|pair| pair[0].0 < pair[1].0) && looks[0].0 >= PILOT_PAIRS, "{looks:?}");
        let sum: f64 = looks.iter().map(|look| look.1).sum();
        assert!((sum - ALPHA).abs() < 1e-9, "{sum}");
    }
}

#[test]
fn intervals_by_hand() {
    // 2, 4, 6: mean 4, deviation 2, t(2) at 5 % is 4.303; successive ones do not hang together.
    let analysis = analyse(&[2.0, 4.0, 6.0], 0.05).unwrap();
    assert_eq!((analysis.pairs, analysis.mean, analysis.effective_pairs), (3, 4.0, 3.0));
    assert!((analysis.high - 4.0 - 4.968_7).abs() < 1e-3, "{analysis:?}");
    assert_eq!(analyse(&[1.0], 0.05), None);
    let nothing = analyse(&[0.0; 8], 0.05).unwrap();
    assert_eq!((nothing.low, nothing.high, nothing.p), (0.0, 0.0, 1.0));
    // Values that go up and stay: few of them count.
    let slow: Vec<f64> = (0..16).map(|index| if index < 8 { 0.0 } else { 1.0 }).collect();
    assert!(analyse(&slow, 0.05).unwrap().effective_pairs < 4.0);
    assert!((difference(90.0, 110.0) - 0.2).abs() < 1e-12);
    assert!(difference(0.0, 0.0).abs() < 1e-12);
}
