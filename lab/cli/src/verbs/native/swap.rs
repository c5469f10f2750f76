//! Swap on a zram device that was unused, for as long as the measurement lasts.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use isotherm_terminal::CliError;
use isotherm_units::Bytes;

const DEVICE: &str = "/dev/zram0";
const FOLDER: &str = "/sys/block/zram0";

/// Takes the swap away once its standard input ends: when the measurement is over, or was killed.
const TAKE_AWAY: &str = "trap '' INT TERM HUP; cat > /dev/null; swapoff /dev/zram0; echo 1 > /sys/block/zram0/reset";

/// Swap that is on until this is dropped, or this program ends in whatever way.
pub(super) struct Zram {
    keeper: Child,
}

impl Zram {
    /// Refuses where swap is on already, or the device is in use.
    pub(super) fn start(size: Bytes) -> Result<Self, CliError> {
        let swaps = fs::read_to_string("/proc/swaps").map_err(CliError::failed)?;
        if swaps.lines().count() > 1 {
            return Err(CliError::host_cannot("swap is on already: leave out --zram, and it is used"));
        }
        let path = Path::new(FOLDER).join("disksize");
        let in_use = fs::read_to_string(&path)
            .map_err(|error| CliError::host_cannot(format!("{}: {error} (modprobe zram)", path.display())))?;
        if in_use.trim() != "0" {
            return Err(CliError::host_cannot(format!("{DEVICE} is in use: {} is {}", path.display(), in_use.trim())));
        }
        let mut keeper = Command::new("sh");
        keeper.args(["-c", TAKE_AWAY]).stdin(Stdio::piped()).stderr(Stdio::null());
        let this = Self { keeper: keeper.spawn().map_err(CliError::failed)? };
        fs::write(&path, size.get().to_string()).map_err(CliError::failed)?;
        call(&["mkswap", DEVICE])?;
        call(&["swapon", DEVICE])?;
        Ok(this)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

fn call(words: &[&str]) -> Result<(), CliError> {
    let output = Command::new(words[0]).args(&words[1..]).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(CliError::host_cannot(format!(
            "{}: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
        Err(error) => Err(CliError::host_cannot(format!("{}: {error}", words[0]))),
    }
}
