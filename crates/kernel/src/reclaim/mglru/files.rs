//! The files through which an administrator steers the policy, by name.

use super::command::{Command, Refusal};
use super::switch::Switches;
use super::{Mglru, MglruConfig};
use crate::memory::Memory;
use isotherm_texts::min_ttl::MinTtl;
use isotherm_units::Duration;

/// A file of `/sys/kernel/mm/lru_gen`, or of debugfs, that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlFile {
    /// `enabled`: the features that are switched on.
    Enabled,
    /// `min_ttl_ms`: how young the oldest pages may get.
    MinTtlMs,
    /// `lru_gen`: ageing and eviction by hand.
    LruGen,
}

impl ControlFile {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::MinTtlMs => "min_ttl_ms",
            Self::LruGen => "lru_gen",
        }
    }

    /// Whether `text` is of the form that the file takes. The objects of a command are known only when it is carried out.
    ///
    /// # Errors
    /// The refusal of the write.
    pub fn check(self, text: &str) -> Result<(), Refusal> {
        match self {
            Self::Enabled => Switches::parse(text).map(drop),
            Self::MinTtlMs => min_ttl(text).map(drop),
            Self::LruGen => Command::parse_all(text).try_for_each(|command| command.map(drop)),
        }
    }
}

/// `min_ttl_ms`, as written; by the rule of the tools that write it.
fn min_ttl(text: &str) -> Result<Duration, Refusal> {
    MinTtl::parse(text).map(|ttl| Duration::from_ms(ttl.ms())).map_err(|_| Refusal::Number)
}

impl Mglru {
    /// Writes `text` to a file.
    ///
    /// # Errors
    /// The refusal. Nothing changed, except by the commands before a refused one.
    pub fn write(&mut self, memory: &mut Memory, file: ControlFile, text: &str) -> Result<(), Refusal> {
        match file {
            ControlFile::Enabled => self.write_enabled(memory, text),
            ControlFile::MinTtlMs => self.write_min_ttl_ms(text),
            ControlFile::LruGen => self.write_lru_gen(memory, text),
        }
    }

    /// Writes `min_ttl_ms`.
    ///
    /// # Errors
    /// [`Refusal::Number`] for text that is not an unsigned number of 32 bits: nothing changed.
    pub fn write_min_ttl_ms(&mut self, text: &str) -> Result<(), Refusal> {
        self.config.min_ttl = min_ttl(text)?;
        Ok(())
    }

    /// The text of `min_ttl_ms`.
    pub fn min_ttl_ms_text(&self) -> String {
        format!("{}\n", self.config.min_ttl.ns() / 1_000_000)
    }

    /// The present configuration.
    pub const fn config(&self) -> &MglruConfig {
        &self.config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_ttl_ms_is_a_number_of_32_bits_and_a_bad_one_changes_nothing() {
        let mut mglru = Mglru::new();
        for (text, read) in
            [("1000", "1000\n"), (" 5\n", "5\n"), ("0x10", "16\n"), ("010", "8\n"), ("4294967295", "4294967295\n")]
        {
            assert_eq!(mglru.write_min_ttl_ms(text), Ok(()), "{text:?}");
            assert_eq!(mglru.min_ttl_ms_text(), read, "{text:?}");
        }
        for text in ["", " ", "08", "0x+1", "-1", "+1", "1.5", "1s", "many", "4294967296", "99999999999999999999"] {
            assert_eq!(mglru.write_min_ttl_ms(text), Err(Refusal::Number), "{text:?}");
            assert_eq!(ControlFile::MinTtlMs.check(text), Err(Refusal::Number), "{text:?}");
        }
        assert_eq!(mglru.min_ttl_ms_text(), "4294967295\n");
    }

    #[test]
    fn the_form_of_a_write_is_known_beforehand() {
        let table = [
            (ControlFile::Enabled, "y", Ok(())),
            (ControlFile::Enabled, "maybe", Err(Refusal::Invalid)),
            (ControlFile::LruGen, "+ 1 0 5; - 1 0 3 max 10", Ok(())),
            (ControlFile::LruGen, "+ 1 0 5; - 1 0", Err(Refusal::Malformed)),
            (ControlFile::LruGen, "- 1 0 3 202", Err(Refusal::Swappiness)),
            (ControlFile::LruGen, "", Ok(())),
        ];
        for (file, text, expected) in table {
            assert_eq!(file.check(text), expected, "{} {text:?}", file.name());
        }
    }
}
