//! The machine that a question is about: what flags say, else this machine as found, else the usual one.

use super::Args;
use crate::error::CliError;
use crate::live::running_policy;
use crate::ui::Ui;
use crate::verbs::calibrate;
use isotherm_advise::Question;
use isotherm_calibrate::{Calibration, Host, Storage};
use isotherm_kernel::prices::Prices;
use isotherm_kernel::swap::DeviceConfig;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_linux::Root;
use isotherm_linux::found::{self, BlockDevice, BlockKind, SwapFound};
use isotherm_sim::machine::MachineConfig;
use isotherm_units::Bytes;
use std::path::Path;

/// The hardware of the simulated machine, and where each part comes from.
#[derive(Debug, PartialEq)]
pub(super) struct Machine {
    pub(super) storage: DeviceConfig,
    pub(super) swap: DeviceConfig,
    /// Largest readahead of files.
    pub(super) readahead: Bytes,
    pub(super) cpus: u32,
    /// Prices of `isotherm calibrate`; empty for those of the table.
    pub(super) prices: Prices,
    /// What was found on this machine, in a sentence; `None` where nothing was looked up.
    pub(super) found: Option<String>,
    /// What this machine has and the simulated one has not.
    pub(super) unlike: Vec<String>,
    /// The disk under files, where it was looked up and `--storage` names no other.
    files: Option<Files>,
}

/// A disk as it was found.
#[derive(Debug, PartialEq)]
struct Files {
    /// Its name in `/sys/block`; `None` where it is not known.
    disk: Option<String>,
    /// Its part of [`Machine::found`].
    words: String,
}

impl Machine {
    /// A question about a program that is started here is about this machine; a recording may come from any.
    pub(super) fn of(args: &Args) -> Self {
        // Files of a service that runs may lie anywhere: those of most are on the disk of the system.
        let folder = if args.cgroup.is_some() { "/" } else { "." };
        let is_here = !args.command.is_empty() || args.here || args.cgroup.is_some();
        if is_here { Self::found(args, &Root::default(), Path::new(folder)) } else { Self::usual(args) }
    }

    /// With the prices and the disk of `--host`, or of this machine where it was found and is calibrated.
    ///
    /// # Errors
    /// The file of `--host` is no calibration.
    pub(super) fn calibrated(mut self, args: &Args, ui: &Ui) -> Result<Self, CliError> {
        let is_here = !args.command.is_empty() || args.here;
        match &args.host {
            Some(path) => {
                let calibration = calibrate::read(path);
                let calibration =
                    calibration.map_err(|error| CliError::usage(format!("{}: {error}", path.display())))?;
                self.prices = calibration.prices(args.storage.is_none());
                let measured = calibration.storage.filter(|_| args.storage.is_none());
                if let Some(storage) = &measured {
                    self.take_disk(storage);
                }
                self.say(&match measured {
                    Some(_) if self.files.is_some() => format!("prices and disk of {}", path.display()),
                    Some(storage) => format!("prices of {}, and its disk: {}", path.display(), words_of(&storage)),
                    None => format!("prices of {}", path.display()),
                });
            }
            None if is_here => self.take_calibration(&Root::default(), calibrate::of_this_machine(ui)),
            None => {}
        }
        Ok(self)
    }

    /// Takes the prices of a calibration, and the disk if it is that of the files, if it was made on a machine like this, and says so.
    fn take_calibration(&mut self, root: &Root, calibration: Option<Calibration>) {
        let words = match calibration {
            None => "not calibrated: `isotherm calibrate` measures what faults, swap and the disk cost here".to_owned(),
            Some(calibration) => match Host::here(root, running_policy(root)).unlike(&calibration.host) {
                None => {
                    // Other files of this machine may lie on another disk.
                    let is_of_files =
                        |storage: &&Storage| self.files.as_ref().is_some_and(|files| files.disk == storage.disk);
                    let storage = calibration.storage.as_ref().filter(is_of_files);
                    self.prices = calibration.prices(storage.is_some());
                    if let Some(storage) = storage {
                        self.take_disk(storage);
                    }
                    format!("calibrated {}", calibrate::age(&calibration))
                }
                Some(unlike) => format!("its calibration was made {unlike}: the prices of the table are taken"),
            },
        };
        self.say(&words);
    }

    /// Takes a disk by its measured numbers.
    fn take_disk(&mut self, storage: &Storage) {
        self.storage = storage.device;
        let Some((files, found)) = self.files.as_mut().zip(self.found.as_mut()) else { return };
        let words = format!("files on {}", words_of(storage));
        *found = found.replacen(&files.words, &words, 1);
        files.words = words;
    }

    /// Adds to what was found.
    fn say(&mut self, words: &str) {
        self.found =
            Some(self.found.take().map_or_else(|| format!("found: {words}"), |found| format!("{found}; {words}")));
    }

    pub(super) fn usual(args: &Args) -> Self {
        Self {
            storage: args.storage.unwrap_or(DeviceKind::Nvme.into()),
            swap: args.swap.unwrap_or(DeviceKind::Zram.into()),
            readahead: args.readahead.unwrap_or(usual_readahead()),
            cpus: args.cpus.unwrap_or(Question::USUAL_CPUS),
            prices: Prices::default(),
            found: None,
            unlike: Vec::new(),
            files: None,
        }
    }

    fn found(args: &Args, root: &Root, folder: &Path) -> Self {
        let mut said = Vec::new();
        let mut part = |is_said: bool, words: String| {
            if !is_said {
                said.push(words);
            }
        };
        let (swap, of_swap) = swap_of(root);
        let disk = found::under(root, folder);
        let (storage, words) = match disk.as_ref().map(kind_of) {
            Some((kind, name)) => (kind, format!("files on {name}")),
            None => (DeviceKind::Nvme, format!("files on {}", unknown("a file system", "NVMe"))),
        };
        let readahead = found::readahead(root, folder).unwrap_or(usual_readahead()).min(READAHEAD_MAX);
        let of_storage = match readahead == usual_readahead() || args.readahead.is_some() {
            true => words.clone(),
            false => format!("{words}, read ahead by {readahead}"),
        };
        let cpus = found::cpus().clamp(1, 256);
        part(args.swap.is_some(), of_swap);
        part(args.storage.is_some(), of_storage);
        part(args.cpus.is_some(), if cpus == 1 { "1 processor".to_owned() } else { format!("{cpus} processors") });
        Self {
            storage: args.storage.unwrap_or(storage.into()),
            swap: args.swap.unwrap_or(swap.into()),
            readahead: args.readahead.unwrap_or(readahead),
            cpus: args.cpus.unwrap_or(cpus),
            prices: Prices::default(),
            found: (!said.is_empty()).then(|| format!("found: {}", said.join("; "))),
            unlike: unlike(root),
            files: args.storage.is_none().then(|| Files { disk: disk.map(|disk| disk.name), words }),
        }
    }
}

/// The simulated swap that stands for that of a machine, and that in words.
pub(super) fn swap_of(root: &Root) -> (DeviceKind, String) {
    match found::swap(root) {
        Ok(SwapFound::None) => (DeviceKind::None, "no swap".to_owned()),
        Ok(SwapFound::On { path, device, zswap }) => {
            let (kind, name) = device.as_ref().map_or((DeviceKind::Ssd, unknown(&path, "a SATA SSD")), kind_of);
            let zswap = if zswap { ", behind zswap, which is not simulated" } else { "" };
            (kind, format!("swap on {name}{zswap}"))
        }
        Err(error) => (DeviceKind::Zram, format!("swap not known ({error}; assumed: zram)")),
    }
}

/// The largest readahead that can be simulated.
const READAHEAD_MAX: Bytes = Bytes::from_mib(16);

/// That of a machine that is not known.
fn usual_readahead() -> Bytes {
    MachineConfig::default().readahead
}

/// The simulated kind, and the device in words.
fn kind_of(device: &BlockDevice) -> (DeviceKind, String) {
    let (kind, words) = match device.kind {
        BlockKind::Zram => (DeviceKind::Zram, "zram"),
        BlockKind::Ram => (DeviceKind::Ram, "a RAM disk"),
        BlockKind::Nvme => (DeviceKind::Nvme, "NVMe"),
        BlockKind::Ssd => (DeviceKind::Ssd, "a SATA SSD"),
        BlockKind::Disk => (DeviceKind::Disk, "a disk that rotates"),
        BlockKind::Virtual => (DeviceKind::Ssd, "a virtual disk; assumed: a SATA SSD"),
    };
    (kind, format!("{} ({words})", device.name))
}

/// A measured disk, in words.
fn words_of(storage: &Storage) -> String {
    let name = storage.disk.as_deref().unwrap_or("a disk");
    format!("{name} (measured below {}: {})", storage.folder, storage.device)
}

fn unknown(what: &str, assumed: &str) -> String {
    format!("{what} whose disk is not known (assumed: {assumed})")
}

/// Properties of this machine that no replay has.
fn unlike(root: &Root) -> Vec<String> {
    let huge = found::huge_pages(root).filter(|switch| switch == "always").map(|_| {
        "this machine gives huge pages to all programs (transparent_hugepage is `always`); replays have none".to_owned()
    });
    let page = found::other_page_bytes()
        .map(|bytes| format!("pages of this machine are of {}; replays are of 4 KiB", Bytes::new(bytes).approx()));
    huge.into_iter().chain(page).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::ColourChoice;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &[&str]) -> Args {
        Line::parse_from([&["advise"], line].concat()).args
    }

    #[test]
    fn a_recording_from_elsewhere_is_asked_about_on_the_usual_machine() {
        let machine = Machine::of(&args(&["a.parquet"]));
        assert_eq!((machine.swap, machine.cpus, machine.found), (DeviceKind::Zram.into(), 4, None));
    }

    #[test]
    fn this_machine_is_taken_as_it_is_found_and_flags_come_first() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("proc")).unwrap();
        std::fs::write(tree.path().join("proc/swaps"), "Filename Type Size Used Priority\n").unwrap();
        let root = Root::below(tree.path());
        let machine = Machine::found(&args(&["--", "true"]), &root, Path::new("/no/such/folder"));
        assert_eq!((machine.swap, machine.storage), (DeviceKind::None.into(), DeviceKind::Nvme.into()));
        let said = machine.found.unwrap();
        assert!(said.starts_with("found: no swap; files on a file system whose disk is not known"), "{said}");
        let machine =
            Machine::found(&args(&["--swap", "nvme", "--storage", "ssd", "--cpus", "7", "a"]), &root, Path::new("."));
        assert_eq!((machine.swap, machine.cpus, machine.found), (DeviceKind::Nvme.into(), 7, None));
    }

    fn calibration(host: Host, disk: Option<&str>) -> Calibration {
        let device = "latency=95us,bandwidth=900MiB/s,queue=16".parse().unwrap();
        let disk = disk.map(str::to_owned);
        let storage = Some(Storage { folder: "/srv".to_owned(), disk, device, measured: Vec::new() });
        Calibration {
            version: isotherm_calibrate::VERSION,
            made_at: 0,
            simulated_swapped_page_ns: None,
            host,
            storage,
            measured: Vec::new(),
        }
    }

    #[test]
    fn a_disk_is_taken_as_it_was_measured_unless_another_is_named() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root::below(tree.path());
        let host = Host::here(&root, running_policy(&root));
        let found = |line: &[&str], disk: Option<&str>| {
            let mut machine = Machine::found(&args(line), &root, Path::new("/no/such/folder"));
            machine.take_calibration(&root, Some(calibration(host.clone(), disk)));
            machine
        };
        let machine = found(&["--", "true"], None);
        assert_eq!(machine.storage.to_string(), "latency=95us,bandwidth=900MiB/s,queue=16");
        let said = machine.found.unwrap();
        assert!(
            said.contains("files on a disk (measured below /srv: latency=95us") && said.contains("calibrated"),
            "{said}"
        );
        assert!(!said.contains("assumed: NVMe"), "{said}");
        assert_eq!(found(&["--", "true"], Some("sdb")).storage, DeviceKind::Nvme, "of another disk");
        assert_eq!(found(&["--storage", "ssd", "--", "true"], None).storage, DeviceKind::Ssd);

        let path = tree.path().join("host.toml");
        std::fs::write(&path, calibration(host.clone(), Some("sdb")).to_text()).unwrap();
        let ui = Ui::new(true, ColourChoice::Never);
        for (more, storage) in [(vec![], "latency=95us,bandwidth=900MiB/s,queue=16"), (vec!["--storage", "ssd"], "ssd")]
        {
            let args = args(&[&["a.parquet", "--host", path.to_str().unwrap()], &more[..]].concat());
            let machine = Machine::of(&args).calibrated(&args, &ui).unwrap();
            assert_eq!(machine.storage.to_string(), storage);
            let said = machine.found.unwrap();
            assert_eq!(said.contains("sdb (measured below /srv"), more.is_empty(), "{said}");
            assert!(said.contains("prices of ") && said.contains("host.toml"), "{said}");
        }
    }
}
