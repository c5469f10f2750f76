//! The advice as text.

use super::adaptive;
use super::bursts::waits_mostly;
use super::platform::{Line, Platform};
use crate::{
    Advice, AdviceRow, DeviceRole, FEWEST_FAULTS, HugePages, KillChance, Kills, LatencyRow, NativeError, Neighbour,
    OtherDevice, Recommendation, SchemeDid, Start, percent,
};
use isotherm_kernel::swap::DeviceConfig;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_sim::machine::Ending;
use isotherm_units::{Bytes, Duration};
use std::path::Path;

/// Which kernel and devices were simulated: `Linux 7.2, files on nvme, swap on zram`.
pub fn machine(advice: &Advice) -> String {
    format!("Linux {}, files on {}, swap on {}", advice.kernel, device_name(advice.storage), device_name(advice.swap))
}

/// The answer in a sentence or two; if the program waits most of the time, a sentence on that precedes it, and if it runs otherwise under a
/// limit, sentences on that follow.
pub fn verdict(advice: &Advice) -> String {
    let waits = waits(advice).filter(|_| advice.withheld.is_none());
    let is_limit = advice.withheld.is_none() && !saves_little(advice);
    let adapts = if is_limit { adaptive::warnings(advice) } else { Vec::new() };
    waits.into_iter().chain([answer(advice)]).chain(adapts).collect::<Vec<_>>().join(" ")
}

/// A sentence that the program waits most of the time, and that slow-downs refer to its work; `None` if it does not.
fn waits(advice: &Advice) -> Option<String> {
    let time = |ns: u64| Duration::from_ns(ns).approx();
    waits_mostly(advice).then(|| {
        format!(
            "It waits most of the time: it works for {} of {}. Slow-downs are of that work, stalls included, not of the time that it \
             waits.",
            time(advice.unlimited_work_ns),
            time(advice.unlimited_runtime_ns)
        )
    })
}

fn answer(advice: &Advice) -> String {
    if let Some(why) = &advice.withheld {
        return format!("No recommendation: {why}.");
    }
    let allowed = percent(advice.slowdown_allowed_ppm);
    match &advice.recommendation {
        Some(best) if saves_little(advice) => format!(
            "Recommendation: leave it as it is. There is {} to save: it needs {}, its peak is {}, and with less no size that was tried is \
             surely at most {allowed} slower. It holds on {}.",
            if best.gain.saved_bytes == 0 { "nothing" } else { "hardly anything" },
            Bytes::new(best.memory_bytes).approx(),
            Bytes::new(advice.peak_bytes).approx(),
            releases(advice),
        ),
        Some(best) => format!(
            "Recommendation: {} for {}, {} of its peak of {}: {} slower than with unlimited memory, at worst {} (allowed: {allowed}).{} Killed: {}.{} \
             It holds as memory.max = {} with {} on {}.",
            Bytes::new(best.memory_bytes).approx(),
            advice.program,
            percent(best.memory_share_ppm),
            Bytes::new(advice.peak_bytes).approx(),
            signed_percent(best.runtime_ratio_ppm.median),
            signed_percent(advice.clock.map_or(best.runtime_ratio_ppm.high, |clock| clock.runtime_ratio_at_most_ppm)),
            clock(advice, best.runtime_ratio_ppm.high).unwrap_or_default(),
            chance_of(best.kills, best.kill_chance),
            cliff(advice).unwrap_or_default(),
            Bytes::new(best.memory_bytes).approx(),
            best.candidate,
            releases(advice),
        ),
        None => format!(
            "No recommendation: no size that was tried surely keeps the program within {allowed} of its speed with unlimited \
             memory on {}. Allow more with --slowdown, or try sizes above {} with --memory.",
            releases(advice),
            Bytes::new(advice.rows.iter().map(|row| row.memory_bytes).max().unwrap_or(advice.peak_bytes)).approx(),
        ),
    }
}

/// What the recording's clock has to do with the figure at worst.
fn clock(advice: &Advice, high_ppm: u64) -> Option<String> {
    let clock = advice.clock.filter(|clock| clock.error_percent > CLOCK_ERROR_SMALL)?;
    let (percent, without) = (clock.error_percent, signed_percent(high_ppm));
    let is_allowed = clock.runtime_ratio_at_most_ppm.saturating_sub(1_000_000) <= advice.slowdown_allowed_ppm;
    Some(if is_allowed {
        format!(
            " That is with the recording's clock {percent} % off, as far as clocks of its kind were; with an exact one it is {without}."
        )
    } else {
        format!(
            " The recording's clock may be that far off, {percent} %, and then it is more than allowed; with an exact one it is {without}. \
             Record with --native-first to be sure."
        )
    })
}

/// An error of a clock that needs no words, in percent: that of a native run.
const CLOCK_ERROR_SMALL: u32 = 10;

/// Kills in replays, and the chance of one in a run: `0 of 14 restarts, so at most 20 of 100`.
fn killed(kills: Kills) -> String {
    let Kills { start, share } = kills;
    format!("{} of {}, so at most {}", share.of, starts(share.n, start), of_100(share.at_most_ppm()))
}

/// The same at the recommended size, with what replays with other limits say.
fn chance_of(Kills { start, share }: Kills, chance: KillChance) -> String {
    let at_most = of_100(chance.at_most_ppm);
    let size = |bytes: u64| Bytes::new(bytes).approx();
    match chance.killed_with_bytes {
        None => {
            let replays = starts(chance.n, start);
            format!("none of {replays} with {} and more, so at most {at_most}", size(chance.from_bytes))
        }
        Some(most) => format!(
            "{} of {}, and by the curve of all {}, of which {} were, with up to {}, at most {at_most}",
            share.of,
            starts(share.n, start),
            chance.n,
            chance.of,
            size(most),
        ),
    }
}

/// `1 restart`, `5 first starts`.
fn starts(n: u64, start: Start) -> String {
    format!("{n} {}{}", self::start(start), if n == 1 { "" } else { "s" })
}

/// A kind of start in words.
pub fn start(start: Start) -> &'static str {
    match start {
        Start::First => "first start",
        Start::Restart => "restart",
    }
}

/// `5 of 100`, rounded up.
fn of_100(ppm: u64) -> String {
    format!("{} of 100", ppm.div_ceil(10_000))
}

/// That a little less memory costs many times as much.
fn cliff(advice: &Advice) -> Option<String> {
    let best = advice.recommendation.as_ref()?;
    let less = best.neighbours.iter().find(|neighbour| neighbour.of_recommended_permil < 1000)?;
    let size = Bytes::new(less.memory_bytes).approx();
    let slower_ppm = |ratio: u64| ratio.saturating_sub(1_000_000);
    let high = less.runtime_ratio_ppm.map(|ratio| ratio.high);
    match high {
        None => Some(format!(" Below that it is killed: at {size} already.")),
        Some(high) if slower_ppm(high) > CLIFF_TIMES * advice.slowdown_allowed_ppm => {
            Some(format!(" Below that it falls off a cliff: at {size} up to {} slower.", signed_percent(high)))
        }
        Some(_) => None,
    }
}

/// A size this many times slower than allowed, just below the recommended one, is a cliff.
const CLIFF_TIMES: u64 = 2;

/// Whether what could be saved is not worth a limit.
fn saves_little(advice: &Advice) -> bool {
    advice.recommendation.as_ref().is_some_and(|best| best.gain.saved_bytes < SAVED_MIN)
}

/// Less than this is not worth a limit, in bytes.
const SAVED_MIN: u64 = 1 << 20;

/// Why there is no answer, or only that nothing is to be done: one sentence that says it all.
pub fn in_a_sentence(advice: &Advice) -> Option<String> {
    (advice.withheld.is_some() || saves_little(advice)).then(|| verdict(advice))
}

/// `Linux 6.12 and 7.2`.
fn releases(advice: &Advice) -> String {
    let names: Vec<&str> = advice.holds_on.iter().map(|release| release.name()).collect();
    format!("Linux {}", names.join(" and "))
}

/// Commands for a live system, each with its effect.
pub fn now(advice: &Advice, written: Option<&Path>, platform: &Platform) -> Vec<Line> {
    let (Some(best), Some(config)) = (&advice.recommendation, &advice.config) else { return Vec::new() };
    let has_swap = advice.swap != DeviceConfig::Kind(DeviceKind::None);
    let mut lines = Vec::new();
    let has_daemon = !(config.monitors.is_empty() && config.generations.is_empty() && config.limits.is_empty());
    if config.limits.is_empty() {
        lines.extend(platform.lines(best.memory_bytes, has_swap));
    }
    let generations = match config.policy.as_str() {
        "mglru" => Some("the figures are for mglru: it says 0x0007, or they do not hold (advise --policy classic)"),
        "classic" => Some("the figures are for classic: it says 0x0000, or they do not hold (advise --policy mglru)"),
        _ => None,
    };
    lines.extend(generations.map(|words| ("cat /sys/kernel/mm/lru_gen/enabled".to_owned(), words)));
    // What keeps the program elsewhere would write over what is written into its group.
    if !platform.is_plain() && !has_daemon {
        return lines;
    }
    let file = written.map_or_else(|| "advice.toml".to_owned(), |path| path.display().to_string());
    if written.is_none() {
        lines.push((format!("isotherm advise TRACE --config {file}"), "or write the configuration to a file"));
    }
    let what = if has_daemon {
        "and list its schemes, too; --yes makes the writes"
    } else {
        "and list the writes; --yes makes them"
    };
    lines.push((format!("isotherm apply {file} --cgroup /GROUP"), what));
    lines
}

/// A sentence on the sample that was played; `None` if only the whole recording was.
pub fn sample(advice: &Advice) -> Option<String> {
    let rate = format!("1/{}", advice.sample?);
    Some(if advice.replays > 0 {
        format!(
            "A sample of {rate} of its memory found out where to look ({} replays). The recommendation stands on {} replays of the \
             whole. Figures with the note {rate}, other devices and the report's course are the sample's.",
            advice.sampled_replays, advice.replays,
        )
    } else {
        format!(
            "Played on a sample of {rate} of its memory alone ({} replays). On other programs that made recommended memory {SAMPLE_ERROR} \
             (docs/use/advise.md#samples); without --sample 1/N the recommendation stands on the whole.",
            advice.sampled_replays,
        )
    })
}

/// Differences of recommended memory from the whole's: docs/use/advise.md#errors.
const SAMPLE_ERROR: &str = "less than 2 % different, but a third too little for one that reads mapped files at random";

/// How certain the recommendation is: source of its interval, a little less and more memory, the price of safety.
pub fn firmness(advice: &Advice) -> Vec<String> {
    let Some(best) = &advice.recommendation else { return Vec::new() };
    let (ratio, faults) = (best.runtime_ratio_ppm, best.major_faults);
    let range = |low: u64, high: u64| format!("{} to {}", signed_percent(low), signed_percent(high));
    let mut said = vec![format!(
        "Of 100 runs 95 are expected to be at most {} slower, and 95 to have {} to {} major faults (median {}). Chance alone makes {} \
         and {} to {} faults ({} replays); the rest is what the model was found to be off on real kernels.",
        signed_percent(ratio.high),
        faults.low,
        faults.high,
        faults.median,
        range(ratio.chance_low, ratio.chance_high),
        faults.chance_low,
        faults.chance_high,
        best.n,
    )];
    if let Some(natively) = natively(advice, best) {
        said[0] = format!("{} {natively}", said[0]);
    }
    let neighbour = |neighbour: &Neighbour| {
        let memory = match neighbour.of_recommended_permil {
            less @ ..1000 => format!("{} % less memory", (1000 - less) / 10),
            more => format!("{} % more", (more - 1000) / 10),
        };
        let slower =
            neighbour.runtime_ratio_ppm.map_or_else(|| "it is killed".to_owned(), |ratio| signed_percent(ratio.high));
        format!("with {memory} ({}) at most {slower}", Bytes::new(neighbour.memory_bytes).approx())
    };
    let neighbours: Vec<String> = best.neighbours.iter().map(neighbour).collect();
    if !neighbours.is_empty() {
        said.push(format!("Slower by: {}.", neighbours.join(", ")));
    }
    if best.kills_with_less.share.n > 0 {
        said.push(format!("Killed with 5 to 10 % less memory: {}.", killed(best.kills_with_less)));
    }
    let odds: Vec<String> = best
        .odds
        .iter()
        .map(|odds| format!("{} % with {}", odds.too_slow_ppm / 10_000, Bytes::new(odds.memory_bytes).approx()))
        .collect();
    if !odds.is_empty() {
        said.push(format!("Price of safety: too slow by chance in {} of replays.", odds.join(", ")));
    }
    said
}

/// What native runs of other programs say about the upper end.
fn natively(advice: &Advice, best: &Recommendation) -> Option<String> {
    let high = best.runtime_ratio_ppm.high;
    let runs = NativeError::of(!advice.prices.is_empty(), high)?;
    Some(format!(
        "In native runs of {} other programs, on one machine, limits of which as little was said added at most {}. That holds for a further \
         program of their kind in {} of {} cases.",
        runs.programs,
        signed_percent(best.native_at_most_ppm?),
        runs.programs,
        runs.programs + 1,
    ))
}

/// Effects of other devices.
pub fn other_devices(advice: &Advice) -> Vec<String> {
    let of = |role: DeviceRole| {
        let on = |other: &OtherDevice| {
            let slower = other.runtime_ratio_ppm.map_or_else(|| "killed".to_owned(), signed_percent);
            let verdict = if other.is_fast_enough { "" } else { ", too slow" };
            format!("{} ({slower}{verdict})", device_name(other.device))
        };
        let others: Vec<String> = advice.other_devices.iter().filter(|other| other.role == role).map(on).collect();
        others.join(", ")
    };
    let mut said = Vec::new();
    for (role, what) in [(DeviceRole::Storage, "files"), (DeviceRole::Swap, "swap")] {
        let others = of(role);
        if !others.is_empty() {
            said.push(format!("The same with {what} on another device, one replay each: {others}."));
        }
    }
    said
}

/// The predicted gain of the recommendation, with intervals.
pub fn gains(advice: &Advice) -> Vec<String> {
    let has_gain = |best: &&crate::Recommendation| best.gain.saved_bytes > 0 || best.gain.mean_saved_bytes.median > 0;
    let Some(best) = advice.recommendation.as_ref().filter(has_gain) else { return Vec::new() };
    let gain = &best.gain;
    let bytes = |bytes: u64| Bytes::new(bytes).approx();
    let mut said = Vec::new();
    let at_most = gain.saved_at_most_bytes.map_or_else(String::new, |most| format!(" (at most {})", bytes(most)));
    let mean = gain.mean_saved_bytes;
    said.push(format!(
        "Predicted gain in memory: {} off the peak{at_most}, {} ({} to {}) on average over time.",
        bytes(gain.saved_bytes),
        bytes(mean.median),
        bytes(mean.low),
        bytes(mean.high),
    ));
    let enough = match gain.classic_enough_bytes {
        Some(enough) if best.candidate != "classic" => format!(" Classic alone is safe from {} on.", bytes(enough)),
        None => " Classic alone is safe at no size that was tried.".to_owned(),
        Some(_) => String::new(),
    };
    if let Some(against) = &gain.against_classic {
        let relative = |ppm: u64| ppm as f64 / 1e4 - 100.0;
        let ratio = against.runtime_ratio_ppm;
        said.push(format!(
            "Predicted runtime against classic alone at the same memory: {:+.1} % ({:+.1} % to {:+.1} %, {} pairs).{enough}",
            relative(ratio.median),
            relative(ratio.low),
            relative(ratio.high),
            against.n,
        ));
    } else if !enough.is_empty() {
        said.push(enough.trim_start().to_owned());
    }
    said
}

/// How much a ratio in millionths is above one; a little below one occurs where an interval is wide.
pub fn signed_percent(ppm: u64) -> String {
    // A value that rounds to zero has no sign.
    let sign = if ppm.saturating_add(500) <= 1_000_000 { "-" } else { "" };
    format!("{sign}{}", percent(ppm.abs_diff(1_000_000)))
}

/// Memory that the program held by itself, where that was measured, and how much of its files it uses.
pub fn beside_the_peak(advice: &Advice) -> String {
    let size = |bytes: u64| Bytes::new(bytes).approx();
    let measured = advice.measured_peak_bytes.map(|bytes| format!("{} resident when it ran by itself", size(bytes)));
    let files = advice.page_cache_bytes.filter(|&bytes| bytes > 0);
    let files = files.map(|bytes| format!("{} of files read and written", size(bytes)));
    let said: Vec<String> = measured.into_iter().chain(files).collect();
    if said.is_empty() { String::new() } else { format!(" ({})", said.join(", ")) }
}

/// That the program takes far more memory by itself than when it is replayed, and why that may be.
pub fn unlike_the_measured(advice: &Advice) -> Option<String> {
    let (measured, played) = (advice.measured_peak_bytes?, advice.peak_bytes);
    let size = |bytes: u64| Bytes::new(bytes).approx();
    (measured > played.saturating_add(played / 4) && measured - played > DIFFERENCE_MIN).then(|| {
        format!(
            "Its measured peak, {}, is far above the {} that it touches: likely the kernel gave it huge pages \
             (/sys/kernel/mm/transparent_hugepage/enabled), which the replays do not have. With these a limit below the measured peak takes \
             them apart first; without them the figures here hold. `isotherm advise --huge-pages` says what they are good for.",
            size(measured),
            size(played)
        )
    })
}

/// Smaller differences, in bytes, are page tables, stacks and chance.
const DIFFERENCE_MIN: u64 = 4 << 20;

/// How much of the program's memory could be huge pages, in a sentence.
pub fn huge_pages(huge: &HugePages) -> String {
    if let Some(why) = huge.not_reported {
        return format!("Huge pages: not told, because {}.", why.message());
    }
    let share = percent(huge.dense_share_ppm);
    match huge.dense() {
        Some(dense) => format!(
            "Huge pages: {} of the memory it touches, and {} of its accesses, lie in {} aligned ranges of 2 MiB of anonymous \
             memory of which it uses {share} and more; as huge pages they would hold {} beside what is in use.",
            percent(dense.held_share_ppm),
            percent(dense.accesses_share_ppm),
            dense.ranges,
            Bytes::new(dense.overhead_bytes).approx(),
        ),
        None => format!(
            "Huge pages: not worth it; no aligned range of 2 MiB of its anonymous memory is in use by {share} and more."
        ),
    }
}

/// How long the program would wait for huge pages, in sentences. Empty if no memory could be huge.
pub fn latencies(huge: &HugePages) -> String {
    let Some(fragmented) = &huge.fragmented else { return String::new() };
    let time = |ns: u64| Duration::from_ns(ns).approx();
    let of = |row: &LatencyRow| {
        let mut said = vec![format!("{} are there at once", percent(row.light_share_ppm))];
        if let Some(p50) = row.light_p50_ns {
            said.push(format!(" (median {})", time(p50)));
        }
        if let (Some(p50), Some(p95)) = (row.fallback_p50_ns, row.fallback_p95_ns) {
            let (p50, p95) = (time(p50), time(p95));
            said.push(format!(", the others are made while it waits (median {p50}, 95th percentile {p95})"));
        }
        if row.failed > 0 {
            said.push(format!(", {} of {} are not had", row.failed, row.got + row.failed));
        }
        said.concat()
    };
    let (vanilla, best) = (fragmented.vanilla(), fragmented.with_best());
    let said = format!(
        "On fragmented memory ({}, {} huge pages, {} machines): without proactive compaction {}; with `{}`, the best of {} \
         designs, {}.",
        Bytes::new(fragmented.machine_bytes).approx(),
        fragmented.wanted,
        fragmented.n,
        of(vanilla),
        best.design,
        fragmented.rows.len() - 1,
        of(best),
    );
    match fragmented.rows[1..].iter().find(|row| row.runs_on_linux && row.design != best.design) {
        Some(linux) => format!("{said} Linux has `{}`: {}.", linux.design, of(linux)),
        None => said,
    }
}

/// Assumptions of these latencies.
pub fn latency_assumptions(huge: &HugePages) -> Vec<String> {
    huge.fragmented.as_ref().map_or_else(Vec::new, |fragmented| fragmented.assumptions.clone())
}

/// Notes, each with its configuration.
pub fn notes(advice: &Advice) -> Vec<String> {
    advice.notes.iter().map(|note| format!("{}: {}.", note.candidate, note.message)).collect()
}

/// Effects of combinations with the kernel's own parameters.
pub fn kernel_defaults(advice: &Advice) -> Vec<String> {
    let sentence = |defaults: &crate::KernelDefaults| {
        let ratio = defaults
            .runtime_ratio_ppm
            .map_or_else(|| "killed".to_owned(), |ratio| format!("{} slower", signed_percent(ratio)));
        // A statement that holds for several schemes is made once.
        let mut words: Vec<&str> = Vec::new();
        for sentence in defaults.words.iter().flatten() {
            if !words.contains(&sentence.as_str()) {
                words.push(sentence);
            }
        }
        format!("{}, `preset = \"{}\"`: {ratio}. {}", defaults.candidate, defaults.preset, words.join(" "))
    };
    advice.kernel_defaults.iter().map(sentence).collect()
}

/// The schemes and parameters of each combination that differ from the kernel's own.
pub fn configurations(advice: &Advice) -> Vec<String> {
    let mut groups: Vec<(&[String], Vec<&str>)> = Vec::new();
    for configuration in advice.configurations.iter().filter(|configuration| !configuration.presets.is_empty()) {
        match groups.iter_mut().find(|(presets, _)| *presets == configuration.presets) {
            Some((_, names)) => names.push(configuration.candidate),
            None => groups.push((&configuration.presets, vec![configuration.candidate])),
        }
    }
    groups.into_iter().map(|(presets, names)| format!("{}: `{}`", names.join(", "), presets.join("`, `"))).collect()
}

/// A word or two on why a row is special.
pub fn note(advice: &Advice, row: &AdviceRow) -> String {
    let plain = Some(plain_note(advice, row).to_owned()).filter(|note| !note.is_empty());
    let one_replay = row.is_one_replay.then(|| "one replay".to_owned());
    let sample = (row.sample > 1).then(|| format!("1/{}", row.sample));
    plain.into_iter().chain(one_replay).chain(sample).collect::<Vec<_>>().join(", ")
}

fn plain_note(advice: &Advice, row: &AdviceRow) -> &'static str {
    match row.ending {
        Ending::Finished if is_recommended(advice, row) => "recommended",
        Ending::Finished if row.candidate == FEWEST_FAULTS => "fewest faults",
        Ending::Finished if !row.runs_on_linux => "baseline",
        Ending::Finished if row.gamble.is_some() => "gamble",
        Ending::Finished => "",
        Ending::OutOfMemory => "killed: out of memory",
        _ => "did not finish",
    }
}

pub fn is_recommended(advice: &Advice, row: &AdviceRow) -> bool {
    let best = advice.recommendation.as_ref();
    best.is_some_and(|best| best.candidate == row.candidate && best.memory_bytes == row.memory_bytes)
}

/// Effects of schemes, in short: `pageout 12 MiB`.
pub fn did(schemes: &[SchemeDid]) -> String {
    let short = |scheme: &SchemeDid| match (scheme.applied_bytes, scheme.stopped_by) {
        (0, Some(why)) => format!("{} nothing ({})", scheme.action, why.replace('_', " ")),
        (0, None) => format!("{} nothing", scheme.action),
        (bytes, _) => format!("{} {}", scheme.action, Bytes::new(bytes).approx()),
    };
    schemes.iter().map(short).collect::<Vec<_>>().join(", ")
}

/// A device as people call it; one by its numbers as it was written.
pub fn device_name(device: DeviceConfig) -> String {
    let name = match device {
        DeviceConfig::Kind(DeviceKind::None) => "nothing (no swap)",
        DeviceConfig::Kind(DeviceKind::Ram) => "a RAM disk",
        DeviceConfig::Kind(DeviceKind::Zram) => "zram",
        DeviceConfig::Kind(DeviceKind::Nvme) => "NVMe",
        DeviceConfig::Kind(DeviceKind::Ssd) => "a SATA SSD",
        DeviceConfig::Kind(DeviceKind::Disk) => "a disk",
        DeviceConfig::Numbers(_) => return format!("a device of {device}"),
    };
    name.to_owned()
}

/// Units that stay on the line of the number before them.
const UNITS: [&str; 7] = ["%", "KiB", "MiB", "GiB", "µs", "ms", "s"];

/// Text in lines of at most `columns`, the first behind `bullet`, the others below its text. Longer words get a line of their own.
pub fn folded(text: &str, bullet: &str, columns: usize) -> String {
    let indent = " ".repeat(bullet.chars().count());
    let mut lines = Vec::new();
    let mut line = bullet.to_owned();
    let mut is_empty = true;
    let is_unit = |word: &&str| UNITS.contains(&word.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '%'));
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let unit = words.next_if(is_unit);
        let word = unit.map_or_else(|| word.to_owned(), |unit| format!("{word} {unit}"));
        if !is_empty && line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(std::mem::replace(&mut line, indent.clone()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(&word);
        is_empty = false;
    }
    lines.push(line);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_folded_between_words_under_its_bullet() {
        assert_eq!(folded("one two three", "  - ", 11), "  - one two\n    three");
        assert_eq!(folded("incomprehensible words", "", 8), "incomprehensible\nwords");
        assert_eq!(folded("", "", 8), "");
        assert_eq!(folded("grows by 5 %, 3 MiB.", "", 10), "grows by\n5 %,\n3 MiB.");
    }

    #[test]
    fn shares_below_one_are_told_with_a_sign() {
        assert_eq!(signed_percent(1_041_000), "4.1 %");
        assert_eq!(signed_percent(998_000), "-0.2 %");
        assert_eq!(signed_percent(1_000_000), "0.0 %");
        assert_eq!((signed_percent(999_501), signed_percent(999_500)), ("0.0 %".to_owned(), "-0.1 %".to_owned()));
    }

    #[test]
    fn kills_are_told_with_their_start_and_chance() {
        let share = |of, n| isotherm_scenario::Share::new(of, n);
        let killed = |start, of, n| super::killed(Kills { start, share: share(of, n) });
        assert_eq!(killed(Start::First, 0, 1), "0 of 1 first start, so at most 95 of 100");
        assert_eq!(killed(Start::Restart, 0, 30), "0 of 30 restarts, so at most 10 of 100");
        let chance = |killed_with_bytes| KillChance {
            of: 7,
            n: 96,
            from_bytes: 78 << 20,
            killed_with_bytes,
            at_most_ppm: 10_000,
        };
        let kills = Kills { start: Start::Restart, share: share(0, 31) };
        assert_eq!(
            chance_of(kills, chance(Some(91 << 20))),
            "0 of 31 restarts, and by the curve of all 96, of which 7 were, with up to 91.0 MiB, at most 1 of 100"
        );
        assert_eq!(chance_of(kills, chance(None)), "none of 96 restarts with 78.0 MiB and more, so at most 1 of 100");
    }

    #[test]
    fn schemes_are_told_in_short() {
        let scheme =
            |action, applied_bytes, stopped_by| SchemeDid { action, tried_bytes: 0, applied_bytes, stopped_by };
        let did =
            did(&[scheme("lru-prio", 3 << 20, Some("too_few_accesses")), scheme("lru-deprio", 0, Some("too_young"))]);
        assert_eq!(did, "lru-prio 3.00 MiB, lru-deprio nothing (too young)");
    }
}
