//! Times of requests. Files count seconds, milliseconds, microseconds, nanoseconds or ticks of Windows, and rarely tell the unit.
//!
//! The unit comes from the first of these that gives one: the option `time_unit`; the format; the name of the column; the unit in which the
//! first time is a date from 1990 to 2100. Otherwise it is seconds. The last two are guesses, which the notes of the trace report.

/// Unit of the times of a file of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
    /// 100 ns, counted from 1601 in dates: `FILETIME` of Windows, as in the block traces of MSR Cambridge.
    WindowsTicks,
}

/// Every unit with its name on the command line and in messages, and its length in nanoseconds.
const UNITS: [(TimeUnit, &str, &str, u64); 5] = [
    (TimeUnit::Seconds, "s", "seconds", 1_000_000_000),
    (TimeUnit::Milliseconds, "ms", "milliseconds", 1_000_000),
    (TimeUnit::Microseconds, "us", "microseconds", 1000),
    (TimeUnit::Nanoseconds, "ns", "nanoseconds", 1),
    (TimeUnit::WindowsTicks, "100ns", "ticks of 100 nanoseconds", 100),
];

/// 1990 and 2100, in seconds since 1970.
const DATES_S: std::ops::Range<u64> = 631_152_000..4_102_444_800;
/// From 1601, where Windows begins to count, to 1970.
const WINDOWS_EPOCH_S: u64 = 11_644_473_600;
/// Longest trace in a guessed unit, 100 years: a longer one is of another unit.
const GUESSED_NS_MAX: u128 = 100 * 365 * 86_400 * 1_000_000_000;
/// Remedy for a wrong guess.
const WAY_OUT: &str = "--time-unit s|ms|us|ns|100ns";

impl TimeUnit {
    fn ns(self) -> u64 {
        self.row().3
    }

    /// The word for messages.
    fn word(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> (Self, &'static str, &'static str, u64) {
        *UNITS.iter().find(|(unit, ..)| *unit == self).expect("the table has every unit")
    }

    /// The unit in which `whole` is a date between 1990 and 2100; the ranges of two units have no number in common.
    fn of_date(whole: u64) -> Option<Self> {
        let is_date = |unit: &Self| {
            let begin_s = if *unit == Self::WindowsTicks { WINDOWS_EPOCH_S } else { 0 };
            (whole / (1_000_000_000 / unit.ns())).checked_sub(begin_s).is_some_and(|date_s| DATES_S.contains(&date_s))
        };
        UNITS.iter().map(|(unit, ..)| *unit).find(is_date)
    }

    /// The unit that the name of a column ends with: `time_us`, `Timestamp (ms)`, `ts[ns]`.
    pub(super) fn of_column(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let word = name.split(|letter: char| !letter.is_ascii_alphanumeric()).rfind(|word| !word.is_empty())?;
        match word {
            "s" | "sec" | "secs" | "second" | "seconds" => Some(Self::Seconds),
            "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => Some(Self::Milliseconds),
            "us" | "usec" | "usecs" | "micros" | "microsecond" | "microseconds" => Some(Self::Microseconds),
            "ns" | "nsec" | "nsecs" | "nanos" | "nanosecond" | "nanoseconds" => Some(Self::Nanoseconds),
            "100ns" | "filetime" => Some(Self::WindowsTicks),
            _ => None,
        }
    }
}

/// A time as the file has it: whole units, and a fraction in billionths of the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time {
    whole: u64,
    billionths: u32,
}

impl Time {
    pub(super) fn whole(whole: u64) -> Self {
        Self { whole, billionths: 0 }
    }

    /// Parses a decimal number; digits after the ninth of the fraction are dropped.
    pub(super) fn parse(word: &str) -> Option<Self> {
        let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
        let is_digits = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
        let billionths = digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        Some(Self { whole: whole.parse().ok()?, billionths })
    }

    fn ns(self, unit: TimeUnit) -> u128 {
        let fraction_ns = u64::from(self.billionths) * unit.ns() / 1_000_000_000;
        u128::from(self.whole) * u128::from(unit.ns()) + u128::from(fraction_ns)
    }
}

/// How a unit is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    Option,
    Format,
    Column,
    Date,
    Assumed,
}

/// The clock of a file of requests.
#[derive(Debug)]
pub(super) struct Times {
    unit: Option<(TimeUnit, Basis)>,
    first_ns: Option<u128>,
    /// Whether there are two different times.
    runs: bool,
}

impl Times {
    pub(super) fn new(given: Option<TimeUnit>) -> Self {
        Self { unit: given.map(|unit| (unit, Basis::Option)), first_ns: None, runs: false }
    }

    /// Sets the unit, unless an option did.
    pub(super) fn learn(&mut self, unit: TimeUnit, basis: Basis) {
        self.unit.get_or_insert((unit, basis));
    }

    /// Nanoseconds since the first request; an error if the guessed unit cannot be right.
    pub(super) fn since_first_ns(&mut self, time: Time) -> Result<u64, String> {
        let (unit, basis) = *self.unit.get_or_insert_with(|| guess(time));
        let ns = time.ns(unit);
        let first_ns = *self.first_ns.get_or_insert(ns);
        self.runs |= ns != first_ns;
        let since_ns = ns.saturating_sub(first_ns);
        let is_guess = matches!(basis, Basis::Date | Basis::Assumed);
        let is_late = basis == Basis::Assumed && ns > u128::from(DATES_S.end) * 1_000_000_000;
        if is_guess && (is_late || since_ns > GUESSED_NS_MAX) {
            let whole = time.whole;
            return Err(format!(
                "a time is {whole}, which cannot be {}; say the unit of times: {WAY_OUT}",
                unit.word()
            ));
        }
        Ok(u64::try_from(since_ns).unwrap_or(u64::MAX).min(i64::MAX.unsigned_abs()))
    }

    /// Note for readers: the unit, how it is known, and the length of the trace if it is a guess.
    pub(super) fn note(&self, count: u64, length_ns: u64) -> String {
        if count > 1 && !self.runs {
            return "all requests have the same time, so the trace lasts 0 s; leave out --clock file for even times"
                .to_owned();
        }
        let own = "time is the file's own clock, from its first request on";
        let Some((unit, basis)) = self.unit else { return own.to_owned() };
        let word = unit.word();
        let lasts = format!("the requests then last {} s", seconds(length_ns));
        match basis {
            Basis::Option | Basis::Format => format!("{own}, in {word}"),
            Basis::Column => format!("{own}, in {word} by the name of its column; if that is wrong: {WAY_OUT}"),
            Basis::Date => {
                format!("{own}, taken for {word} because they give a date ({lasts}); if that is wrong: {WAY_OUT}")
            }
            Basis::Assumed => {
                format!("{own}, whose unit is not known: {word} are assumed ({lasts}); if that is wrong: {WAY_OUT}")
            }
        }
    }
}

fn guess(first: Time) -> (TimeUnit, Basis) {
    match TimeUnit::of_date(first.whole) {
        Some(unit) => (unit, Basis::Date),
        None => (TimeUnit::Seconds, Basis::Assumed),
    }
}

/// Seconds with as many digits as are needed.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_dates_by_hand() {
        // 13 March 2009, noon, in each unit; then 1601 in ticks, the first seconds, and the largest number.
        let table = [
            (1_236_945_600, Some(TimeUnit::Seconds)),
            (1_236_945_600_000, Some(TimeUnit::Milliseconds)),
            (1_236_945_600_000_000, Some(TimeUnit::Microseconds)),
            (1_236_945_600_000_000_000, Some(TimeUnit::Nanoseconds)),
            (128_814_192_000_000_000, Some(TimeUnit::WindowsTicks)),
            (0, None),
            (881, None),
            (89_967_882_718, None),
            (u64::MAX, None),
        ];
        for (whole, unit) in table {
            assert_eq!(TimeUnit::of_date(whole), unit, "{whole}");
        }
    }

    #[test]
    fn the_name_of_a_column_may_have_the_unit() {
        let table = [
            ("time_us", Some(TimeUnit::Microseconds)),
            (" Timestamp (ms) ", Some(TimeUnit::Milliseconds)),
            ("ts[ns]", Some(TimeUnit::Nanoseconds)),
            ("time (sec)", Some(TimeUnit::Seconds)),
            ("Time 100ns", Some(TimeUnit::WindowsTicks)),
            ("status", None),
            ("time", None),
            ("", None),
            ("()", None),
        ];
        for (name, unit) in table {
            assert_eq!(TimeUnit::of_column(name), unit, "{name:?}");
        }
    }

    #[test]
    fn numbers_with_a_fraction() {
        let time = |whole, billionths| Some(Time { whole, billionths });
        let table = [
            ("12", time(12, 0)),
            ("12.", time(12, 0)),
            ("0.000103", time(0, 103_000)),
            ("7.1234567899", time(7, 123_456_789)),
            ("18446744073709551615.9", time(u64::MAX, 900_000_000)),
            ("18446744073709551616", None),
            ("1.28e17", None),
            ("1.2.3", None),
            ("-1", None),
            ("+1", None),
            (".5", None),
            ("", None),
        ];
        for (word, expected) in table {
            assert_eq!(Time::parse(word), expected, "{word:?}");
        }
        assert_eq!(Time::parse("1.5").unwrap().ns(TimeUnit::WindowsTicks), 150);
        assert_eq!(Time::whole(u64::MAX).ns(TimeUnit::Seconds), u128::from(u64::MAX) * 1_000_000_000);
    }

    #[test]
    fn a_guess_is_named_and_one_that_cannot_be_is_refused() {
        let mut times = Times::new(None);
        assert_eq!(times.since_first_ns(Time::whole(0)), Ok(0));
        assert_eq!(times.since_first_ns(Time::whole(881)), Ok(881_000_000_000));
        let note = times.note(2, 881_000_000_000);
        assert!(
            note.contains("seconds are assumed (the requests then last 881 s)") && note.contains("--time-unit"),
            "{note}"
        );
        assert!(Times::new(None).note(2, 0).starts_with("all requests have the same time"));
        assert!(times.since_first_ns(Time::whole(4_000_000_000)).unwrap_err().contains("--time-unit"));
        let mut late = Times::new(None);
        assert!(late.since_first_ns(Time::whole(89_967_882_718)).unwrap_err().contains("cannot be seconds"));
        let mut given = Times::new(Some(TimeUnit::Seconds));
        given.learn(TimeUnit::Nanoseconds, Basis::Column);
        assert_eq!(given.since_first_ns(Time::whole(0)), Ok(0));
        assert_eq!(given.since_first_ns(Time::whole(u64::MAX)), Ok(i64::MAX.unsigned_abs()));
        assert_eq!(given.since_first_ns(Time::whole(0)), Ok(0), "back before the latest");
    }
}
