//! Targets of anonymous memory: swap, and compressed memory.

use super::{Context, Finding, Part, State, chosen, said};
use crate::Root;
use crate::counters::swaps::{self, Swap};

const PART: Part = Part::Acting;
const ZRAM_SWAP: &str =
    "as root: modprobe zram; zramctl --find --size 4G; mkswap and swapon on the device that it names";

pub(super) fn swap(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "swap";
    if !context.root.has("/proc/swaps") {
        return vec![
            Finding::new(PART, NAME, State::Missing, "this kernel has no swap").fix("a kernel with CONFIG_SWAP"),
        ];
    }
    let devices = match swaps::read(context.root) {
        Ok(devices) => devices,
        Err(error) => return vec![Finding::new(PART, NAME, State::Missing, said(&error))],
    };
    if devices.is_empty() {
        let words = "no swap: anonymous memory cannot be taken from anybody, however cold it is";
        return vec![Finding::new(PART, NAME, State::Missing, words).fix(format!("{ZRAM_SWAP}; or a swap file"))];
    }
    let sum = |bytes: fn(&Swap) -> u64| devices.iter().map(bytes).fold(0, u64::saturating_add);
    let (free, total) = (sum(Swap::free_bytes), sum(|device| device.total_bytes));
    let names: Vec<&str> = devices.iter().map(|device| device.path.as_str()).collect();
    let words = format!("{} of {} MiB free on {}", free >> 20, total >> 20, names.join(", "));
    vec![if free == 0 {
        // docs/spec/live-linux.md#s2: the call returns success.
        let harm = "full: what is paged out stays, and counts as used again";
        Finding::new(PART, NAME, State::Missing, format!("{harm}; {words}")).fix("more swap, or fewer programs")
    } else if free < total / 10 {
        Finding::new(PART, NAME, State::Partly, format!("nearly full; {words}")).fix("more swap, or fewer programs")
    } else {
        Finding::new(PART, NAME, State::Works, words)
    }]
}

pub(super) fn zram(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "zram";
    let devices = zram_devices(context.root);
    if devices.is_empty() {
        let words = "no zram device: swap is as slow as its disk";
        return vec![Finding::new(PART, NAME, State::Missing, words).fix(ZRAM_SWAP)];
    }
    // The probe of swap reports errors in /proc/swaps.
    let swaps = swaps::read(context.root).unwrap_or_default();
    devices.iter().map(|device| of_device(context.root, device, &swaps)).collect()
}

fn of_device(root: &Root, device: &str, swaps: &[Swap]) -> Finding {
    const NAME: &str = "zram";
    let finding = |state, words: String| Finding::new(PART, NAME, state, format!("{device}: {words}"));
    let size_bytes: u64 = match root.value(format!("/sys/block/{device}/disksize")) {
        Ok(bytes) => bytes,
        Err(error) => return finding(State::Partly, said(&error)),
    };
    if size_bytes == 0 {
        return finding(State::Missing, "it has no size yet".to_owned()).fix(format!(
            "as root: zramctl /dev/{device} --size 4G && mkswap /dev/{device} && swapon -p 100 /dev/{device}"
        ));
    }
    let algorithm = root.read(format!("/sys/block/{device}/comp_algorithm")).unwrap_or_default();
    let algorithm = chosen(&algorithm).map(|name| format!(", {name}")).unwrap_or_default();
    let words = format!("{} MiB{algorithm}", size_bytes >> 20);
    if !swaps.iter().any(|swap| swap.zram() == Some(device)) {
        return finding(State::Partly, format!("{words}, not used as swap"))
            .fix(format!("if nothing else is on it, as root: mkswap /dev/{device} && swapon -p 100 /dev/{device}"));
    }
    match swaps::zram(root, device) {
        Ok(held) => {
            let (original, memory) = (held.original_bytes >> 20, held.memory_bytes >> 20);
            finding(State::Works, format!("{words}, used as swap; holds {original} MiB in {memory} MiB of memory"))
        }
        Err(error) => finding(State::Partly, format!("{words}, used as swap; {}", said(&error))),
    }
}

/// Names of zram devices, by number.
fn zram_devices(root: &Root) -> Vec<String> {
    let entries = std::fs::read_dir(root.path("/sys/block")).into_iter().flatten().flatten();
    let name = |entry: std::fs::DirEntry| Some(entry.file_name().to_str()?.strip_prefix("zram")?.to_owned());
    let mut numbers: Vec<u32> = entries.filter_map(|entry| name(entry)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.iter().map(|number| format!("zram{number}")).collect()
}
