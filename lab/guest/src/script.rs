//! A page script: touches, mappings and starts of processes, in one order, for a real kernel.
//!
//! One list of operations of 16 bytes. Everything that could make two plays differ (clocks, threads taking turns) is already
//! decided, so that a kernel and the simulated machine get the same accesses in the same order.

use thiserror::Error;

/// Process number of the conductor, which starts other processes and takes marks.
pub const CONDUCTOR: u16 = 1023;
/// Most processes a script may have.
pub const PROCESSES_MAX: usize = 1000;
/// Page numbers are below this (48-bit addresses).
pub const PAGE_LIMIT: u64 = 1 << 36;

const MAGIC: &[u8; 8] = b"isoplay1";
const PAGE_BITS: u32 = 52;
const PROCESS_BITS: u32 = 10;
const WRITE_BIT: u64 = 1 << 62;
const DESCRIPTOR_BIT: u64 = 1 << 63;
const KIND_BITS: u32 = 4;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Process of the operation: index, or [`CONDUCTOR`].
    pub process: u16,
    pub action: Action,
}

/// An action of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Touches `pages` pages from `page` upwards, through its page table.
    Touch {
        /// First page.
        page: u64,
        /// How many, at least 1.
        pages: u32,
        /// Whether it stores.
        write: bool,
    },
    /// Reads or writes whole pages of a file.
    Transfer {
        /// Index of the file.
        file: u32,
        /// First page of the file.
        page: u64,
        /// How many, at least 1.
        pages: u32,
        /// `write()` rather than `read()`.
        write: bool,
    },
    /// Maps memory without a file.
    MapAnonymous {
        /// First page.
        page: u64,
        pages: u32,
    },
    MapFile {
        /// First page.
        page: u64,
        pages: u32,
        /// Index of the file.
        file: u32,
        /// Page of the file at the first one.
        file_page: u64,
        /// `MAP_SHARED`.
        shared: bool,
        /// `PROT_EXEC`.
        executable: bool,
    },
    Unmap {
        /// First page.
        page: u64,
        pages: u32,
    },
    /// `madvise`.
    Advise {
        /// First page.
        page: u64,
        pages: u32,
        advice: Advice,
    },
    /// Starts a process: a fork of the acting one, or an empty one if the conductor acts.
    Start {
        /// Index of the new process.
        process: u16,
    },
    /// Ends the process and frees its memory.
    Finish,
    /// Sets `memory.max` of the group.
    Limit {
        /// Pages. [`u64::MAX`] cannot be encoded: for no limit leave the operation out.
        pages: u64,
    },
    /// Has the state of the kernel reported.
    Mark { number: u32 },
}

/// Values of `madvise`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Advice {
    /// `MADV_NORMAL`.
    Normal,
    /// `MADV_RANDOM`.
    Random,
    /// `MADV_SEQUENTIAL`.
    Sequential,
    /// `MADV_DONTNEED`.
    DontNeed,
    /// `MADV_FREE`.
    Free,
    /// `MADV_WILLNEED`.
    WillNeed,
    /// `MADV_COLD`.
    Cold,
    /// `MADV_PAGEOUT`.
    PageOut,
}

const ADVICE: [Advice; 8] = [
    Advice::Normal,
    Advice::Random,
    Advice::Sequential,
    Advice::DontNeed,
    Advice::Free,
    Advice::WillNeed,
    Advice::Cold,
    Advice::PageOut,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptFile {
    /// Length of the file in pages.
    pub pages: u64,
    /// Shared memory (tmpfs) rather than a file on a disk.
    pub shared_memory: bool,
}

/// A whole script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Files that operations name.
    pub files: Vec<ScriptFile>,
    /// Pages whose residency is reported: `(process, first page, pages)`.
    pub watched: Vec<(u16, u64, u64)>,
    pub operations: Vec<Operation>,
}

/// Bytes that are no script.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the page script is damaged at byte {at}: {what}")]
pub struct ScriptError {
    /// Offset of the error.
    pub at: usize,
    pub what: &'static str,
}

impl Script {
    /// The script as bytes: a header, then words of 64 bits, least byte first.
    pub fn encode(&self) -> Vec<u8> {
        let mut words = vec![self.files.len() as u64, self.watched.len() as u64, self.operations.len() as u64];
        words.extend(self.files.iter().map(|file| file.pages << 1 | u64::from(file.shared_memory)));
        for &(process, page, pages) in &self.watched {
            words.extend([u64::from(process) << PAGE_BITS | page, pages]);
        }
        for operation in &self.operations {
            operation.encode(&mut words);
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    /// Parses the output of [`Script::encode`].
    ///
    /// # Errors
    /// A wrong header, a truncated file, an unknown operation, or an operation that refers to a missing file or process.
    pub fn decode(bytes: &[u8]) -> Result<Self, ScriptError> {
        if bytes.get(..MAGIC.len()) != Some(MAGIC.as_slice()) {
            return Err(ScriptError { at: 0, what: "it does not begin as one" });
        }
        let mut words = Words { bytes, at: MAGIC.len() };
        let counts = [words.next()?, words.next()?, words.next()?];
        // Each takes 8 bytes at least: larger counts are invalid, and must not be allocated.
        if counts.iter().any(|&count| count > bytes.len() as u64 / 8) {
            return words.fail("a count is larger than the script");
        }
        let mut script = Self::default();
        for _ in 0..counts[0] {
            let word = words.next()?;
            script.files.push(ScriptFile { pages: word >> 1, shared_memory: word & 1 == 1 });
        }
        for _ in 0..counts[1] {
            let (word, pages) = (words.next()?, words.next()?);
            let (process, page) = (process_of(word), word & ((1 << PAGE_BITS) - 1));
            if page >= PAGE_LIMIT || pages > PAGE_LIMIT {
                return words.fail("a watched page is above 48-bit addresses");
            }
            script.watched.push((process, page, pages));
        }
        for _ in 0..counts[2] {
            script.operations.push(Operation::decode(&mut words, script.files.len())?);
        }
        if words.at != bytes.len() {
            return words.fail("something follows the last operation");
        }
        Ok(script)
    }
}

struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Words<'_> {
    fn next(&mut self) -> Result<u64, ScriptError> {
        let Some(bytes) = self.bytes.get(self.at..self.at + 8) else { return self.fail("it ends early") };
        self.at += 8;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }
    fn fail<T>(&self, what: &'static str) -> Result<T, ScriptError> {
        Err(ScriptError { at: self.at, what })
    }
}

fn process_of(word: u64) -> u16 {
    u16::try_from(word >> PAGE_BITS & ((1 << PROCESS_BITS) - 1)).expect("ten bits")
}

/// Numbers of actions in the file. A second word pair follows [`MAP_FILE`] alone.
const TOUCH: u32 = 0;
const TRANSFER: u32 = 1;
const MAP_ANONYMOUS: u32 = 2;
const MAP_FILE: u32 = 3;
const UNMAP: u32 = 4;
const ADVISE: u32 = 5;
const START: u32 = 6;
const FINISH: u32 = 7;
const LIMIT: u32 = 8;
const MARK: u32 = 9;

impl Operation {
    /// Word 0: page, process, write and descriptor bits. Word 1: pages below, kind and argument above.
    fn encode(&self, words: &mut Vec<u64>) {
        let (kind, page, pages, argument, flags) = match self.action {
            Action::Touch { page, pages, write } => (TOUCH, page, pages, 0, if write { WRITE_BIT } else { 0 }),
            Action::Transfer { file, page, pages, write } => {
                (TRANSFER, page, pages, file, DESCRIPTOR_BIT | if write { WRITE_BIT } else { 0 })
            }
            Action::MapAnonymous { page, pages } => (MAP_ANONYMOUS, page, pages, 0, 0),
            Action::MapFile { page, pages, file, .. } => (MAP_FILE, page, pages, file, 0),
            Action::Unmap { page, pages } => (UNMAP, page, pages, 0, 0),
            Action::Advise { page, pages, advice } => (ADVISE, page, pages, advice as u32, 0),
            Action::Start { process } => (START, 0, 0, u32::from(process), 0),
            Action::Finish => (FINISH, 0, 0, 0, 0),
            Action::Limit { pages } => (LIMIT, pages, 0, 0, 0),
            Action::Mark { number } => (MARK, 0, 0, number, 0),
        };
        words.push(page | u64::from(self.process) << PAGE_BITS | flags);
        words.push(u64::from(pages) | u64::from(kind | argument << KIND_BITS) << 32);
        if let Action::MapFile { file_page, shared, executable, .. } = self.action {
            words.push(file_page);
            words.push(u64::from(shared) | u64::from(executable) << 1);
        }
    }

    fn decode(words: &mut Words<'_>, nr_files: usize) -> Result<Self, ScriptError> {
        let (first, second) = (words.next()?, words.next()?);
        let page = first & ((1 << PAGE_BITS) - 1);
        let write = first & WRITE_BIT != 0;
        let [pages, upper] =
            [second & u64::from(u32::MAX), second >> 32].map(|half| u32::try_from(half).expect("half a word"));
        let (kind, argument) = (upper & ((1 << KIND_BITS) - 1), upper >> KIND_BITS);
        let process = process_of(first);
        if usize::from(process) >= PROCESSES_MAX && process != CONDUCTOR {
            return words.fail("no such process");
        }
        if kind < START && (pages == 0 || page + u64::from(pages) > PAGE_LIMIT) {
            return words.fail("a range of pages is empty or above 48-bit addresses");
        }
        if (kind == TRANSFER || kind == MAP_FILE) && argument as usize >= nr_files {
            return words.fail("no such file");
        }
        let action = match kind {
            TOUCH => Action::Touch { page, pages, write },
            TRANSFER => Action::Transfer { file: argument, page, pages, write },
            MAP_ANONYMOUS => Action::MapAnonymous { page, pages },
            MAP_FILE => {
                let (file_page, bits) = (words.next()?, words.next()?);
                let (shared, executable) = (bits & 1 != 0, bits & 2 != 0);
                Action::MapFile { page, pages, file: argument, file_page, shared, executable }
            }
            UNMAP => Action::Unmap { page, pages },
            ADVISE => match ADVICE.get(argument as usize) {
                Some(&advice) => Action::Advise { page, pages, advice },
                None => return words.fail("no such advice"),
            },
            START => match u16::try_from(argument).ok().filter(|&started| usize::from(started) < PROCESSES_MAX) {
                Some(process) => Action::Start { process },
                None => return words.fail("a process that cannot be is started"),
            },
            FINISH => Action::Finish,
            LIMIT => Action::Limit { pages: page },
            MARK => Action::Mark { number: argument },
            _ => return words.fail("no such operation"),
        };
        Ok(Self { process, action })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn action() -> impl Strategy<Value = Action> {
        let pages = (0u64..PAGE_LIMIT - 5000, 1u32..5000);
        prop_oneof![
            (pages.clone(), any::<bool>()).prop_map(|((page, pages), write)| Action::Touch { page, pages, write }),
            (pages.clone(), 0u32..3, any::<bool>()).prop_map(|((page, pages), file, write)| Action::Transfer {
                file,
                page,
                pages,
                write
            }),
            pages.clone().prop_map(|(page, pages)| Action::MapAnonymous { page, pages }),
            (pages.clone(), 0u32..3, 0u64..1 << 40, any::<bool>(), any::<bool>()).prop_map(
                |((page, pages), file, file_page, shared, executable)| {
                    Action::MapFile { page, pages, file, file_page, shared, executable }
                }
            ),
            pages.clone().prop_map(|(page, pages)| Action::Unmap { page, pages }),
            (pages, 0usize..8).prop_map(|((page, pages), advice)| Action::Advise {
                page,
                pages,
                advice: ADVICE[advice]
            }),
            (0u16..1000).prop_map(|process| Action::Start { process }),
            Just(Action::Finish),
            (0u64..1 << 40).prop_map(|pages| Action::Limit { pages }),
            (0u32..1 << 20).prop_map(|number| Action::Mark { number }),
        ]
    }

    fn script() -> impl Strategy<Value = Script> {
        let files = [(1, false), (1 << 40, true), (0, false)];
        let files = files.map(|(pages, shared_memory)| ScriptFile { pages, shared_memory }).to_vec();
        let operation = (prop_oneof![0u16..1000, Just(CONDUCTOR)], action());
        let operation = operation.prop_map(|(process, action)| Operation { process, action });
        let watched = prop::collection::vec((0u16..1000, 0u64..PAGE_LIMIT, 0u64..PAGE_LIMIT), 0..3);
        (watched, prop::collection::vec(operation, 0..20)).prop_map(move |(watched, operations)| Script {
            files: files.clone(),
            watched,
            operations,
        })
    }

    proptest! {
        #[test]
        fn there_and_back(script in script()) {
            prop_assert_eq!(Script::decode(&script.encode()), Ok(script));
        }

        #[test]
        fn every_truncation_is_refused(script in script(), cut: prop::sample::Index) {
            let bytes = script.encode();
            let cut = cut.index(bytes.len());
            prop_assert!(Script::decode(&bytes[..cut]).is_err());
        }

        #[test]
        fn garbage_does_no_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = Script::decode(&bytes);
            if bytes.len() >= 8 {
                bytes[..8].copy_from_slice(MAGIC);
                let _ = Script::decode(&bytes);
            }
        }
    }

    #[test]
    fn counts_that_cannot_be_are_refused_without_memory_for_them() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([u64::MAX, 1, 1].iter().flat_map(|word| word.to_le_bytes()));
        assert_eq!(Script::decode(&bytes).unwrap_err().what, "a count is larger than the script");
        let error = Script::decode(b"PAR1....").unwrap_err().to_string();
        assert_eq!(error, "the page script is damaged at byte 0: it does not begin as one");
    }
}
