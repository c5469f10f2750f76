//! `/proc/PID/stat`. The parser is our own: that of `procfs` panics on a line without a number in front.

/// Fields that distinguish processes, and kinds of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    pub pid: u32,
    /// Name of the program, cut to 15 bytes by the kernel. May hold spaces and parentheses.
    pub name: String,
    /// `R`, `S`, `D`, `T`, `t`, `Z`, `X`, `I`.
    pub state: char,
    pub parent: u32,
    flags: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Start time in clock ticks since boot (field 22).
    pub start_time: u64,
    /// Where the program's code starts (field 26); 0 or 1 without the permission.
    pub code_start: u64,
}

/// `PF_EXITING`.
const EXITING: u64 = 0x4;
/// `PF_KTHREAD`.
const KERNEL_THREAD: u64 = 0x0020_0000;

impl Stat {
    /// Reads the one line; `None` if it is not of that form.
    pub fn parse(text: &str) -> Option<Self> {
        let (front, rest) = text.split_at(text.rfind(')')?);
        let (pid, name) = front.split_once('(')?;
        // Field 3 of proc(5) is the first here.
        let fields: Vec<&str> = rest[1..].split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3);
        let mut state = field(3)?.chars();
        let stat = Self {
            pid: pid.trim().parse().ok()?,
            name: name.to_owned(),
            state: state.next()?,
            parent: field(4)?.parse().ok()?,
            flags: field(9)?.parse().ok()?,
            minor_faults: field(10)?.parse().ok()?,
            major_faults: field(12)?.parse().ok()?,
            start_time: field(22)?.parse().ok()?,
            code_start: field(26)?.parse().ok()?,
        };
        state.next().is_none().then_some(stat)
    }

    pub fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// It releases its memory, as it exits.
    pub fn is_exiting(&self) -> bool {
        self.flags & EXITING != 0
    }

    /// It has ended, and its parent has not read its exit code yet; or it is about to vanish.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: &str = "812 (a) (b c)) S 1 812 812 0 -1 4194560 991 0 17 0 3 4 0 0 20 0 1 0 88123 12345 678 18446744073709551615 94000 95000 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

    #[test]
    fn names_may_hold_anything() {
        let stat = Stat::parse(LINE).unwrap();
        assert_eq!((stat.pid, stat.name.as_str(), stat.state, stat.parent), (812, "a) (b c)", 'S', 1));
        assert_eq!((stat.minor_faults, stat.major_faults), (991, 17));
        assert_eq!((stat.start_time, stat.code_start), (88123, 94000));
        assert!(!stat.is_kernel_thread() && !stat.has_ended());
        let thread = Stat::parse(&LINE.replace("4194560", "2129984").replace(") S ", ") I ")).unwrap();
        assert!(thread.is_kernel_thread());
        assert!(Stat::parse(&LINE.replace(") S ", ") Z ")).unwrap().has_ended());
    }

    #[test]
    fn what_is_cut_short_is_no_stat() {
        let enough = LINE.find("94000").unwrap();
        for end in 0..enough {
            assert_eq!(Stat::parse(&LINE[..end]), None, "{end} bytes");
        }
        for garbage in ["", ")", "(", "1)", "x (y) S", "1 (y) SS 1", "(a) S 1 1", &"9".repeat(1 << 20)] {
            assert_eq!(Stat::parse(garbage), None);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", at in 0..LINE.len()) {
            Stat::parse(&text);
            Stat::parse(&format!("{}{text}{}", &LINE[..at], &LINE[at..]));
        }
    }
}
