//! Reads masim configurations. Format: plain text, `#` starts a comment, paragraphs separated by blank lines. The first paragraph lists
//! regions, each other one is a phase. Lines of newer files have one more field than lines of older ones.

use std::path::Path;

use isotherm_units::{Bytes, Duration};

use crate::WorkloadError;

/// A masim configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasimConfig {
    /// At least one.
    pub regions: Vec<Region>,
    /// At least one.
    pub phases: Vec<Phase>,
}

/// A range of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Unique.
    pub name: String,
    /// Never 0.
    pub bytes: Bytes,
    /// Whether masim fills the region from a file before it starts, so that the whole region is touched.
    pub has_initial_data: bool,
}

/// Time for which these patterns are played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// First line of the phase.
    pub name: String,
    /// A whole number of milliseconds, never 0.
    pub duration: Duration,
    /// Patterns, at least one; the sum of weights is positive and fits 64 bits.
    pub patterns: Vec<Pattern>,
}

/// How a region is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Index in [`MasimConfig::regions`].
    pub region: usize,
    /// Sequential or random.
    pub order: Order,
    /// The pattern's share of picks is this weight divided by the sum over the phase.
    pub weight: u64,
    /// Loads or stores.
    pub mode: Mode,
}

/// The order of accesses inside a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Accesses one after the other with this distance, wrapping at the end.
    Sequential {
        /// In bytes, never 0.
        stride: u64,
    },
    /// Any byte, evenly.
    Random,
}

/// Loads or stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `ro`.
    ReadOnly,
    /// `wo`: the default of masim.
    WriteOnly,
    /// `rw`: each access loads, then stores.
    ReadWrite,
}

impl MasimConfig {
    /// Reads the text of the file at `path` (for messages only).
    ///
    /// # Errors
    /// The error names file, line and the allowed values, for any text that masim would refuse or could not play.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, WorkloadError> {
        let paragraphs = paragraphs(path, text)?;
        let error = |line, problem: &str, allowed: &str| Line { path, number: line, text: "" }.error(problem, allowed);
        let Some((first, phases)) = paragraphs.split_first() else {
            return Err(error(1, "no regions", "a paragraph of lines `name, size_in_bytes[, initial_data_file]`"));
        };
        let mut regions: Vec<Region> = Vec::new();
        for line in first {
            let region = line.region()?;
            if regions.iter().any(|other| other.name == region.name) {
                return Err(line.error(&format!("region `{}` appears twice", region.name), "one line a region"));
            }
            regions.push(region);
        }
        let phases = phases.iter().map(|lines| phase(lines, &regions)).collect::<Result<Vec<_>, _>>()?;
        if phases.is_empty() {
            let last = first.last().map_or(1, |line| line.number);
            let allowed = "after a blank line: a name, a length in ms, then lines \
                           `region, random(0|1), stride_bytes, weight[, ro|wo|rw]`";
            return Err(error(last, "no phases follow the regions", allowed));
        }
        Ok(Self { regions, phases })
    }

    /// Sum of the regions' sizes, each in whole pages; saturates.
    pub fn footprint(&self) -> Bytes {
        let pages = self.regions.iter().fold(0u64, |sum, region| sum.saturating_add(region.bytes.pages_ceil().get()));
        isotherm_units::Pages::new(pages).bytes()
    }
}

/// A line without its comment, and where it is.
#[derive(Clone, Copy)]
struct Line<'a> {
    path: &'a Path,
    number: usize,
    text: &'a str,
}

/// The non-empty paragraphs. A line that holds only a comment belongs to no paragraph and ends none.
fn paragraphs<'a>(path: &'a Path, text: &'a [u8]) -> Result<Vec<Vec<Line<'a>>>, WorkloadError> {
    let mut paragraphs = vec![Vec::new()];
    for (index, bytes) in text.split(|&byte| byte == b'\n').enumerate() {
        let number = index + 1;
        let Ok(line) = std::str::from_utf8(bytes) else {
            return Err(Line { path, number, text: "" }.error("bytes that are no UTF-8", "plain text"));
        };
        let content = line.split('#').next().unwrap_or_default().trim();
        if !content.is_empty() {
            paragraphs.last_mut().expect("never empty").push(Line { path, number, text: content });
        } else if line.trim().is_empty() && paragraphs.last().is_some_and(|lines| !lines.is_empty()) {
            paragraphs.push(Vec::new());
        }
    }
    paragraphs.retain(|lines| !lines.is_empty());
    Ok(paragraphs)
}

fn phase(lines: &[Line<'_>], regions: &[Region]) -> Result<Phase, WorkloadError> {
    let (name, duration, patterns) = match lines {
        [name, duration, patterns @ ..] if !patterns.is_empty() => (name, duration, patterns),
        [name, ..] => {
            let problem = format!("phase `{}` is not whole", name.shown(name.text));
            let allowed = "a line with its name, one with its length in ms, and at least one \
                           `region, random(0|1), stride_bytes, weight[, ro|wo|rw]`";
            return Err(lines[lines.len() - 1].error(&problem, allowed));
        }
        [] => unreachable!("paragraphs are not empty"),
    };
    let duration_ms = duration.number(duration.text, "length of the phase", "1 or more milliseconds")?;
    if duration_ms == 0 {
        return Err(duration.error("the phase lasts 0 ms", "1 or more milliseconds"));
    }
    let patterns_read = patterns.iter().map(|line| line.pattern(regions)).collect::<Result<Vec<_>, _>>()?;
    let sum = patterns_read.iter().try_fold(0u64, |sum, pattern: &Pattern| sum.checked_add(pattern.weight));
    if sum.is_none_or(|sum| sum == 0) {
        let problem = format!("the weights of phase `{}` sum to {}", name.shown(name.text), sum.unwrap_or(u64::MAX));
        return Err(patterns[patterns.len() - 1].error(&problem, "a sum of 1 or more that fits 64 bits"));
    }
    Ok(Phase { name: name.text.to_owned(), duration: Duration::from_ms(duration_ms), patterns: patterns_read })
}

impl<'a> Line<'a> {
    #[cold]
    fn error(&self, problem: &str, allowed: &str) -> WorkloadError {
        let (path, problem, allowed) = (self.path.to_owned(), problem.to_owned(), allowed.to_owned());
        WorkloadError::Line { path, line: self.number, problem, allowed }
    }

    /// `text` short enough for a message.
    fn shown(&self, text: &str) -> String {
        let mut shown: String = text.chars().take(40).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        shown
    }

    fn fields(&self) -> Vec<&'a str> {
        self.text.split(',').map(str::trim).collect()
    }

    fn number(&self, text: &str, what: &str, allowed: &str) -> Result<u64, WorkloadError> {
        text.parse().map_err(|_| self.error(&format!("the {what} is `{}`", self.shown(text)), allowed))
    }

    fn region(&self) -> Result<Region, WorkloadError> {
        const SHAPE: &str = "`name, size_in_bytes` or `name, size_in_bytes, initial_data_file`";
        let (name, size, initial) = match self.fields()[..] {
            [name, size] => (name, size, "none"),
            [name, size, initial] => (name, size, initial),
            _ => return Err(self.error(&format!("`{}` is no region", self.shown(self.text)), SHAPE)),
        };
        if name.is_empty() {
            return Err(self.error("the region has no name", SHAPE));
        }
        let allowed = "a size in bytes, 1 or more";
        let bytes: Bytes = size.parse().map_err(|_| {
            self.error(&format!("the size of region `{}` is `{}`", self.shown(name), self.shown(size)), allowed)
        })?;
        if bytes == Bytes::ZERO {
            return Err(self.error(&format!("the size of region `{}` is 0", self.shown(name)), allowed));
        }
        let has_initial_data = !initial.is_empty() && !initial.eq_ignore_ascii_case("none");
        Ok(Region { name: name.to_owned(), bytes, has_initial_data })
    }

    fn pattern(&self, regions: &[Region]) -> Result<Pattern, WorkloadError> {
        const SHAPE: &str = "`region, random(0|1), stride_bytes, weight` with `, ro|wo|rw` or without";
        let (name, random, stride, weight, mode) = match self.fields()[..] {
            [name, random, stride, weight] => (name, random, stride, weight, "wo"),
            [name, random, stride, weight, mode] => (name, random, stride, weight, mode),
            _ => return Err(self.error(&format!("`{}` is no access pattern", self.shown(self.text)), SHAPE)),
        };
        let Some(region) = regions.iter().position(|region| region.name == name) else {
            let mut names: Vec<&str> = regions.iter().take(10).map(|region| region.name.as_str()).collect();
            names.extend((regions.len() > 10).then_some("…"));
            return Err(self.error(&format!("unknown region `{}`", self.shown(name)), &names.join(", ")));
        };
        let stride = self.number(stride, "stride", "a number of bytes")?;
        let order = match random {
            "0" if stride == 0 => return Err(self.error("a sequential pattern has stride 0", "1 or more bytes")),
            "0" => Order::Sequential { stride },
            "1" => Order::Random,
            _ => return Err(self.error(&format!("the random flag is `{}`", self.shown(random)), "0 or 1")),
        };
        let weight = self.number(weight, "weight", "a whole number")?;
        let mode = match mode {
            "ro" => Mode::ReadOnly,
            "wo" => Mode::WriteOnly,
            "rw" => Mode::ReadWrite,
            _ => return Err(self.error(&format!("the mode is `{}`", self.shown(mode)), "ro, wo or rw")),
        };
        Ok(Pattern { region, order, weight, mode })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The sample of the format's description.
    const SAMPLE: &str = "#regions\na, 104857600\nb, 10485760\n\n#phases\nwarm up\n5000\na, 0, 4096, 80\n\
                          b, 1, 4096, 20, ro\n";

    fn parse(text: &str) -> Result<MasimConfig, WorkloadError> {
        MasimConfig::parse(Path::new("x.cfg"), text.as_bytes())
    }

    #[test]
    fn both_line_shapes_are_read() {
        let config = parse(SAMPLE).unwrap();
        assert_eq!(config.regions[0].bytes, Bytes::from_mib(100));
        assert_eq!(config.footprint(), Bytes::from_mib(110));
        let phase = &config.phases[0];
        assert_eq!((phase.name.as_str(), phase.duration), ("warm up", Duration::from_secs(5)));
        let sequential = Order::Sequential { stride: 4096 };
        assert_eq!(
            phase.patterns,
            [
                Pattern { region: 0, order: sequential, weight: 80, mode: Mode::WriteOnly },
                Pattern { region: 1, order: Order::Random, weight: 20, mode: Mode::ReadOnly },
            ]
        );
        let new = "# x\r\na, 1, none\r\nb, 9999, data.bin # c\r\n\r\n\r\np\r\n1\r\n# y\r\nb,0,64,1,rw\r\n\r\nq\r\n2\r\na,1,0,1";
        let config = parse(new).unwrap();
        let initial: Vec<bool> = config.regions.iter().map(|region| region.has_initial_data).collect();
        assert_eq!((initial, config.phases.len()), (vec![false, true], 2));
        assert_eq!(config.phases[0].patterns[0].mode, Mode::ReadWrite);
    }

    #[test]
    fn bad_files_name_line_and_allowed_values() {
        let table = [
            ("", "x.cfg:1: no regions"),
            ("# only\n\n#comments", "x.cfg:1: no regions"),
            ("a, 10", "x.cfg:1: no phases follow the regions"),
            ("a", "x.cfg:1: `a` is no region; allowed: `name, size_in_bytes`"),
            ("a, 1, 2, 3", "x.cfg:1: `a, 1, 2, 3` is no region"),
            (", 1", "x.cfg:1: the region has no name"),
            ("a, ten", "x.cfg:1: the size of region `a` is `ten`; allowed: a size in bytes"),
            ("a, 0", "x.cfg:1: the size of region `a` is 0"),
            ("a, -4096", "x.cfg:1: the size of region `a` is `-4096`"),
            ("a, 99999999999999999999999", "x.cfg:1: the size of region `a` is"),
            ("a, 1\na, 2", "x.cfg:2: region `a` appears twice"),
            ("a, 1\n\np", "x.cfg:3: phase `p` is not whole"),
            ("a, 1\n\np\n5", "x.cfg:4: phase `p` is not whole"),
            ("a, 1\n\np\nsoon\na,0,1,1", "x.cfg:4: the length of the phase is `soon`; allowed: 1 or more milliseconds"),
            ("a, 1\n\np\n0\na,0,1,1", "x.cfg:4: the phase lasts 0 ms"),
            ("a, 1\n\np\n1\nb,0,1,1", "x.cfg:5: unknown region `b`; allowed: a"),
            ("a, 1\n\np\n1\na,0,1", "x.cfg:5: `a,0,1` is no access pattern"),
            ("a, 1\n\np\n1\na,2,1,1", "x.cfg:5: the random flag is `2`; allowed: 0 or 1"),
            ("a, 1\n\np\n1\na,0,0,1", "x.cfg:5: a sequential pattern has stride 0"),
            ("a, 1\n\np\n1\na,0,x,1", "x.cfg:5: the stride is `x`"),
            ("a, 1\n\np\n1\na,0,1,x", "x.cfg:5: the weight is `x`"),
            ("a, 1\n\np\n1\na,0,1,1,wr", "x.cfg:5: the mode is `wr`; allowed: ro, wo or rw"),
            ("a, 1\n\np\n1\na,0,1,0\na,1,1,0", "x.cfg:6: the weights of phase `p` sum to 0"),
            ("a, 1\n\np\n1\na,0,1,18446744073709551615\na,1,1,1", "x.cfg:6: the weights of phase `p` sum to"),
        ];
        for (text, expected) in table {
            let message = parse(text).map(|_| ()).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{text:?}: {message}");
            assert!(message.contains("; allowed: "), "{message}");
        }
        let error = MasimConfig::parse(Path::new("x.cfg"), b"a, 1\n\xff\xfe").unwrap_err().to_string();
        assert_eq!(error, "x.cfg:2: bytes that are no UTF-8; allowed: plain text");
    }

    #[test]
    fn truncation_at_any_byte_gives_a_config_or_an_error() {
        let whole = (0..SAMPLE.len()).filter(|&end| parse(&SAMPLE[..end]).is_ok()).count();
        assert!(whole < 60, "only cuts inside the last pattern can be read, {whole} were");
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes: Vec<u8>, text in "[ab01,#\\n ]{0,60}") {
            let _ = MasimConfig::parse(Path::new("x"), &bytes);
            let _ = parse(&text);
        }
    }
}
