//! Description of the machine of a recording.

use isotherm_units::Duration;

use crate::sys;

/// Kernel and CPU: `Linux 6.1.0 x86_64, AMD EPYC`. No name of the host.
pub fn describe() -> String {
    let cpu_info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    match cpu_model(&cpu_info) {
        Some(model) => format!("{}, {model}", sys::kernel()),
        None => sys::kernel(),
    }
}

/// CPU time of a process that ended and was not reaped yet, and of its children that it reaped.
pub(crate) fn cpu_time(pid: u32) -> Option<Duration> {
    cpu_time_of(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// `utime`, `stime`, `cutime` and `cstime` of proc(5), in hundredths of a second on every Linux.
fn cpu_time_of(stat: &str) -> Option<Duration> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let ticks = after_name.split_whitespace().skip(11).take(4).map(|field| field.parse::<u64>().ok());
    ticks.sum::<Option<u64>>().map(|ticks| Duration::from_ms(ticks * 10))
}

fn cpu_model(cpu_info: &str) -> Option<&str> {
    let line = cpu_info.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim()).filter(|model| !model.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_the_sum_of_four_fields() {
        let stat = "12 (a b) c) Z 1 1 1 0 -1 0 0 0 0 0 150 20 3 1 20 0 1 0 99";
        assert_eq!(cpu_time_of(stat), Some(Duration::from_ms(1740)));
        assert_eq!(cpu_time_of(""), None);
        assert_eq!(cpu_time_of("1 (x) Z 1 1 1 0 -1 0 0 0 0 0 x 20 3 1"), None);
    }

    #[test]
    fn the_model_is_found_or_left_out() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: Some CPU 9\n"), Some("Some CPU 9"));
        assert_eq!(cpu_model("model name\t:\n"), None);
        assert_eq!(cpu_model(""), None);
        assert!(describe().starts_with("Linux "));
    }
}
