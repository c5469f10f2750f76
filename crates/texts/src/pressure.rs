//! Pressure stall information of the system and of cgroups.

use crate::Strange;

/// Shares of time in hundredths of a percent, and all time so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// Share of the last 10 seconds, a running mean.
    pub avg10_bp: u32,
    /// Average of the last 60 seconds.
    pub avg60_bp: u32,
    /// Average of the last 300 seconds.
    pub avg300_bp: u32,
    /// Microseconds since boot, or since the group was made.
    pub total_us: u64,
}

/// The contents of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// At least one task waited.
    pub some: Stall,
    /// All tasks that were not idle waited; `None` if the kernel does not report it, for CPU of the system before 5.13.
    pub full: Option<Stall>,
}

/// Parses the text of a file.
///
/// # Errors
/// The line that is not understood, or the missing `some`.
pub fn parse(text: &str) -> Result<Pressure, Strange> {
    let (mut some, mut full) = (None, None);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (kind, fields) = line.split_once(' ').ok_or_else(|| Strange::new(line))?;
        let stall = || stall(fields).ok_or_else(|| Strange::new(line));
        match kind {
            "some" => some = Some(stall()?),
            "full" => full = Some(stall()?),
            _ => {}
        }
    }
    Ok(Pressure { some: some.ok_or_else(|| Strange::new(text))?, full })
}

fn stall(fields: &str) -> Option<Stall> {
    let field = |name: &str| fields.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    Some(Stall {
        avg10_bp: hundredths(field("avg10")?)?,
        avg60_bp: hundredths(field("avg60")?)?,
        avg300_bp: hundredths(field("avg300")?)?,
        total_us: field("total")?.parse().ok()?,
    })
}

/// `12.34` as 1234.
fn hundredths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.')?;
    let is_two_digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_two_digits {
        return None;
    }
    whole.parse::<u32>().ok()?.checked_mul(100)?.checked_add(part.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_hundredths_of_a_percent() {
        let text =
            "some avg10=1.25 avg60=0.07 avg300=100.00 total=987654\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
        let pressure = parse(text).unwrap();
        assert_eq!(pressure.some, Stall { avg10_bp: 125, avg60_bp: 7, avg300_bp: 10_000, total_us: 987_654 });
        assert_eq!(pressure.full.map(|full| full.total_us), Some(5));
        let cpu = parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n").unwrap();
        assert_eq!(cpu.full, None);
    }

    #[test]
    fn what_is_no_pressure_is_refused() {
        for text in [
            "",
            "some",
            "some avg10=0.00",
            "some avg10=0.0 avg60=0.00 avg300=0.00 total=1",
            "some avg10=99999999999.00 avg60=0.00 avg300=0.00 total=1",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=max",
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=1",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
