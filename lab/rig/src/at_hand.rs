//! Requirements of tests of real kernels, and skipping tests without them.

use std::path::{Path, PathBuf};

use crate::{Kernel, KernelEntry, RigError, guest_program, vm};

/// A kernel, fetched if need be, and the guest's program, as tests use them.
#[derive(Clone, Debug)]
pub struct AtHand {
    /// The kernel's name among [`KERNELS`](crate::KERNELS), and the kernel.
    pub kernel: (&'static str, Kernel),
    /// The guest's program.
    pub guest: PathBuf,
}

impl AtHand {
    /// The kernel called `name` and the guest's program below the folder `target` that cargo builds into. `None`, after a message through
    /// `say`: this machine lacks a part, and `is_required` (CI) is false.
    ///
    /// # Errors
    /// A part is missing although it is required; other failures.
    pub fn find(target: &Path, name: &str, is_required: bool, say: &dyn Fn(&str)) -> Result<Option<Self>, RigError> {
        let find = || {
            vm::check()?;
            let guest = guest_program(Some(&target.join("guest/isotherm-guest")), None)?;
            let entry = KernelEntry::named(name)?;
            let kernel = entry.get(&target.join("kernels"), &|what| say(&format!("rig: {what}")))?;
            Ok::<_, RigError>(Self { kernel: (entry.name, kernel), guest })
        };
        match find() {
            Ok(found) => Ok(Some(found)),
            Err(reason) if reason.is_lack() && !is_required => {
                say(&format!("rig: skipped: {reason}"));
                Ok(None)
            }
            Err(reason) => Err(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn only_a_lack_is_a_skip() {
        let folder = tempfile::tempdir().unwrap();
        let said = RefCell::new(Vec::new());
        let find = |is_required| {
            AtHand::find(folder.path(), "6.12", is_required, &|what| said.borrow_mut().push(what.to_owned()))
        };
        assert!(find(false).unwrap().is_none(), "there is no guest's program");
        assert!(said.borrow()[0].starts_with("rig: skipped: "), "{said:?}");
        assert!(find(true).unwrap_err().is_lack());
    }
}
