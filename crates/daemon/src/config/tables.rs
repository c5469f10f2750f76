//! What tables of sections have in common: [`Config`](super::Config) lists them.

use std::fmt;

/// A table of sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// The key: `generations`.
    pub name: &'static str,
    /// Spelling of the table in a file: `[[generations]]`.
    pub(super) written: &'static str,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.written)
    }
}

/// Makes of one list what all tables of sections have in common.
macro_rules! tables {
    ($($field:ident: $kind:ty, $written:literal, $name:expr, $acts:expr, $check:path;)*) => {
        /// All tables of sections, in the order in which sections are reported.
        pub const TABLES: &[Table] = &[$(Table { name: stringify!($field), written: $written },)*];

        impl Config {
            /// Table and name of each section, and whether it may act.
            pub fn sections(&self) -> Vec<(String, bool)> {
                // No `..` here: a table of the configuration that is missing from `tables!` does not compile. Add its row there.
                let Self { daemon: _, targets: _, guard: _, metrics: _, $($field,)* } = self;
                let mut all = Vec::new();
                $(
                    let (name, acts): (fn(&$kind) -> String, fn(&$kind) -> bool) = ($name, $acts);
                    all.extend($field.iter().map(|section| (name(section), section.enable && acts(section))));
                )*
                all
            }

            /// The same configuration, in which no section may act.
            #[must_use]
            pub fn observing(mut self) -> Self {
                $(self.$field.iter_mut().for_each(|section| section.enable = false);)*
                self
            }

            /// Checks the sections of each table by themselves and against each other.
            fn check_sections(&self) -> Result<(), Contradiction> {
                $($check(self)?;)*
                Ok(())
            }
        }
    };
}

pub(super) use tables;
