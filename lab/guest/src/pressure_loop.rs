//! Proactive reclaim by pressure, for comparison: the loop of "TMO: Transparent Memory Offloading in Datacenters" (Weiner et al., ASPLOS
//! 2022, section 3.3). Each interval `memory × ratio × max(0, 1 − pressure / threshold)` is reclaimed.

use std::time::{Duration, Instant};

/// Name of the tool on the command line of this program.
pub(crate) const NAME: &str = "pressure-loop";

/// Arguments: `FOLDER RATIO_PPM THRESHOLD_PPM INTERVAL_MS SECONDS FILE`. At the end FILE has a line like a line of isotherm's audit.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let [folder, ratio, threshold, interval, seconds, file] = arguments else {
        return Err(format!("{NAME} FOLDER RATIO_PPM THRESHOLD_PPM INTERVAL_MS SECONDS FILE"));
    };
    let number = |text: &String| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    let (ratio, threshold) = (number(ratio)?, number(threshold)?);
    let (interval, length) = (Duration::from_millis(number(interval)?), Duration::from_secs(number(seconds)?));
    let begin = Instant::now();
    let (mut stalled, mut asked, mut longest) = (stalled_us(folder)?, 0u64, Duration::ZERO);
    while begin.elapsed() + interval <= length {
        std::thread::sleep(interval);
        let turn = Instant::now();
        let now = stalled_us(folder)?;
        let share_ppm = (now - stalled) * 1_000_000 / (number_of(interval) / 1000).max(1);
        stalled = now;
        let current: u64 = text(&format!("{folder}/memory.current"))?.trim().parse().unwrap_or(0);
        // Millionths, to avoid rounding twice.
        let (ratio_ppm, left_ppm) = (ratio, threshold.saturating_sub(share_ppm));
        let bytes = u128::from(current) * u128::from(ratio_ppm) * u128::from(left_ppm)
            / u128::from(threshold.max(1))
            / 1_000_000;
        let pages = u64::try_from(bytes / 4096).unwrap_or(0);
        if pages > 0 {
            asked += pages * 4096;
            // The kernel refuses what it cannot reclaim, which is no failure.
            let _ = std::fs::write(format!("{folder}/memory.reclaim"), (pages * 4096).to_string());
        }
        longest = longest.max(turn.elapsed());
    }
    std::thread::sleep(length.saturating_sub(begin.elapsed()));
    let statm = text("/proc/self/statm")?;
    let resident: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    let line = serde_json::json!({
        "event": "ended",
        "since_start_ns": number_of(begin.elapsed()),
        "cpu_ns": number_of(crate::sys::cpu_time()),
        "resident_bytes": resident * 4096,
        "longest_turn_ns": number_of(longest),
    });
    let counted = serde_json::json!({ "event": "counted", "asked_bytes": asked, "verified_bytes": 0 });
    std::fs::write(file, format!("{counted}\n{line}\n")).map_err(|error| format!("{file}: {error}"))
}

/// Nanoseconds.
fn number_of(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn text(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

/// Microseconds in which some task of the group waited for memory.
fn stalled_us(folder: &str) -> Result<u64, String> {
    let path = format!("{folder}/memory.pressure");
    let text = text(&path)?;
    let some = text.lines().find(|line| line.starts_with("some")).and_then(|line| line.rsplit_once("total="));
    some.and_then(|(_, total)| total.trim().parse().ok()).ok_or_else(|| format!("{path}: no total"))
}
