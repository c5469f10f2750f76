//! Whether this machine has room and rest for runs, so that they say something and disturb no other program.

use isotherm_linux::counters::{cpu_time, meminfo};
use isotherm_linux::{LiveError, Root};
use isotherm_units::Bytes;
use std::time::Duration;

/// How long the load of processors is observed.
const OBSERVED: Duration = Duration::from_secs(1);
/// Busy processors, in thousandths, from which on times of runs say little.
const BUSY_MAX: u64 = 250;

/// Why a comparison is better not made now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the command takes up to {}, and this machine has {} to give: others would lose theirs", peak.approx(), available.approx())]
    Memory { peak: Bytes, available: Bytes },
    #[error(
        "up to {} of the command's memory may go to swap, which has {} free: others could be left without",
        over.approx(),
        free.approx()
    )]
    Swap { over: Bytes, free: Bytes },
    #[error("{}.{} processors are busy with other work, which would be in the times of the runs", permil / 1000, permil / 100 % 10)]
    Busy { permil: u64 },
}

/// Reasons against runs of a command with this peak, the smallest of whose limits is `smallest`. Takes a second.
///
/// # Errors
/// As of the files of `/proc`.
pub fn disturbs(root: &Root, peak: Bytes, smallest: Bytes) -> Result<Vec<Refusal>, LiveError> {
    let before = cpu_time::read(root)?;
    std::thread::sleep(OBSERVED);
    let busy = cpu_time::read(root)?.busy_permil_since(&before);
    let memory = meminfo::read(root)?;
    let bytes = |name: &str| Bytes::new(memory.get(name).unwrap_or(0));
    let mut refusals = room(peak, smallest, bytes("MemAvailable"), [bytes("SwapTotal"), bytes("SwapFree")]);
    if busy > BUSY_MAX {
        refusals.push(Refusal::Busy { permil: busy });
    }
    Ok(refusals)
}

/// A machine without swap keeps all of it.
fn room(peak: Bytes, smallest: Bytes, available: Bytes, [swap, free]: [Bytes; 2]) -> Vec<Refusal> {
    let over = Bytes::new(peak.get().saturating_sub(smallest.get()));
    let memory = (peak > available).then_some(Refusal::Memory { peak, available });
    let swap = (swap > Bytes::new(0) && over > free).then_some(Refusal::Swap { over, free });
    memory.into_iter().chain(swap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_needs_room_in_memory_and_in_swap() {
        let room = |peak, smallest, available, swap: [u64; 2]| {
            let mib = Bytes::from_mib;
            room(mib(peak), mib(smallest), mib(available), swap.map(mib))
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(room(100, 60, 200, [64, 64]), [] as [&str; 0]);
        assert_eq!(room(100, 60, 200, [0, 0]), [] as [&str; 0], "without swap none is taken from others");
        assert!(
            room(100, 60, 200, [64, 30])[0].contains("40.0 MiB")
                && room(100, 60, 200, [64, 30])[0].contains("30.0 MiB")
        );
        assert!(room(300, 60, 200, [0, 0])[0].contains("others would lose theirs"));
        assert_eq!(room(300, 60, 200, [64, 30]).len(), 2);
        assert_eq!(Refusal::Busy { permil: 1470 }.to_string().split(' ').next(), Some("1.4"));
    }
}
