//! Kernels from the system's package manager.
//!
//! Package lists and packages go into the cache folder: the system's own lists and packages stay as they are. The system's own configured
//! mirror is used. Checksums and signatures are the package manager's affair.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::RigError;

/// A kernel that the rig can fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEntry {
    /// Release of the kernel, major and minor number.
    pub name: &'static str,
    /// A further name that is accepted.
    pub alias: Option<&'static str>,
    /// The distribution's suite that has it.
    pub suite: &'static str,
    /// One line of description.
    pub summary: &'static str,
}

/// All kernels. To add a kernel: a line here.
pub const KERNELS: &[KernelEntry] = &[
    KernelEntry { name: "6.1", alias: None, suite: "bookworm", summary: "Debian 12" },
    KernelEntry { name: "6.12", alias: None, suite: "trixie", summary: "Debian 13" },
    KernelEntry { name: "7.2", alias: Some("newest"), suite: "sid", summary: "Debian unstable" },
];

/// A fetched kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// `uname -r`.
    pub release: String,
    /// The bootable image.
    pub image: PathBuf,
    /// Folder of its modules, `lib/modules/RELEASE`.
    pub modules: PathBuf,
}

impl KernelEntry {
    /// The kernel called `name`, or with that alias.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> Result<&'static Self, RigError> {
        KERNELS.iter().find(|entry| entry.name == name || entry.alias == Some(name)).ok_or_else(|| RigError::NoKernel {
            name: name.to_owned(),
            known: KERNELS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
        })
    }

    /// The kernel in `cache`, if it exists, under its name or its alias.
    pub fn cached(&self, cache: &Path) -> Option<Kernel> {
        let names = [self.name].into_iter().chain(self.alias);
        names.filter_map(|name| Kernel::in_folder(&cache.join(name))).next()
    }

    /// Whether `kernel` is of the release that the entry is named after: a suite moves on, its entry does not.
    pub fn is_of_its_release(&self, kernel: &Kernel) -> bool {
        kernel.release.strip_prefix(self.name).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// The kernel in `cache`, fetched first if it is missing. `say` is called with messages on progress.
    ///
    /// # Errors
    /// The package manager is missing, has no mirror configured, or cannot fetch.
    pub fn get(&self, cache: &Path, say: &dyn Fn(&str)) -> Result<Kernel, RigError> {
        let folder = cache.join(self.name);
        if let Some(kernel) = self.cached(cache) {
            return Ok(kernel);
        }
        for (program, package) in [("apt-get", "apt"), ("apt-cache", "apt"), ("dpkg-deb", "dpkg"), ("tar", "tar")] {
            need(program, package)?;
        }
        // One at a time over all processes and threads: a second one waits, and finds the kernel in the cache.
        fs::create_dir_all(cache).map_err(RigError::io(cache))?;
        let path = cache.join("lock");
        let lock = fs::File::create(&path).and_then(|file| file.lock().map(|()| file));
        let _lock = lock.map_err(RigError::io(&path))?;
        if let Some(kernel) = self.cached(cache) {
            return Ok(kernel);
        }
        let apt = Apt::new(self, cache)?;
        say(&format!("reading the package list of {}", self.suite));
        apt.run("apt-get", &["update"])?;
        let packages = apt.packages()?;
        let release = packages[0].trim_start_matches("linux-image-").to_owned();
        say(&format!("fetching Linux {release}"));
        let part = cache.join(format!("{}.part", self.name));
        if part.exists() {
            fs::remove_dir_all(&part).map_err(RigError::io(&part))?;
        }
        fs::create_dir_all(&part).map_err(RigError::io(&part))?;
        let mut download = vec!["download"];
        download.extend(packages.iter().map(String::as_str));
        apt.run_in(&part, "apt-get", &download)?;
        say(&format!("unpacking Linux {release}"));
        unpack(self.name, &part)?;
        // Only a whole folder gets the final name.
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(RigError::io(&folder))?;
        }
        fs::rename(&part, &folder).map_err(RigError::io(&folder))?;
        Kernel::in_folder(&folder).ok_or_else(|| RigError::Damaged {
            path: folder,
            reason: "the packages hold no kernel image with its modules".to_owned(),
        })
    }
}

impl Kernel {
    /// Contents of `folder`: an image `vmlinuz-*`, in it or next to the modules, and one folder of modules.
    fn in_folder(folder: &Path) -> Option<Self> {
        let modules = ["usr/lib/modules", "lib/modules"].iter().find_map(|place| only_entry(&folder.join(place)))?;
        let release = modules.file_name()?.to_str()?.to_owned();
        let images = [folder.join("boot").join(format!("vmlinuz-{release}")), modules.join("vmlinuz")];
        let image = images.into_iter().find(|image| image.is_file())?;
        Some(Self { release, image, modules })
    }
}

fn only_entry(folder: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(folder).ok()?.flatten();
    let entry = entries.next()?;
    entries.next().is_none().then(|| entry.path())
}

/// Fails unless `program` is on the path.
pub(crate) fn need(program: &'static str, package: &str) -> Result<(), RigError> {
    find(program, package).map(|_| ())
}

/// Path of `program`: on the path, or as given.
pub(crate) fn find(program: &'static str, package: &str) -> Result<PathBuf, RigError> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&paths).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")]);
    if let Some(path) = folders.find_map(|folder| Some(folder.join(program)).filter(|path| path.is_file())) {
        return Ok(path);
    }
    let fix = format!("on Debian and Ubuntu: apt-get install {package}");
    Err(RigError::Missing { program, fix })
}

/// The package manager with lists and packages of its own.
struct Apt<'a> {
    entry: &'a KernelEntry,
    options: Vec<String>,
}

impl<'a> Apt<'a> {
    fn new(entry: &'a KernelEntry, cache: &Path) -> Result<Self, RigError> {
        let cache = std::path::absolute(cache).map_err(RigError::io(cache))?;
        let root = cache.join("apt").join(entry.suite);
        for folder in ["lists/partial", "archives/partial"] {
            let folder = root.join(folder);
            fs::create_dir_all(&folder).map_err(RigError::io(&folder))?;
        }
        let mirror = mirror(entry)?;
        let sources = root.join("sources.list");
        // If the keys of the archive are not trusted for every source, they are here.
        let keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let signed = if Path::new(keyring).exists() { format!("[signed-by={keyring}] ") } else { String::new() };
        let line = format!("deb {signed}{mirror} {} main\n", entry.suite);
        fs::write(&sources, line).map_err(RigError::io(&sources))?;
        let show = |path: &Path| path.display().to_string();
        let options = vec![
            format!("Dir::Etc::SourceList={}", show(&sources)),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            "Dir::Etc::Preferences=/dev/null".to_owned(),
            "Dir::Etc::PreferencesParts=/dev/null".to_owned(),
            format!("Dir::State::Lists={}", show(&root.join("lists"))),
            format!("Dir::Cache={}", show(&root)),
            format!("Dir::Cache::Archives={}", show(&root.join("archives"))),
            // Neither translations nor software-centre data.
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            // The cache belongs to the current user, not to the package manager's own user.
            "APT::Sandbox::User=root".to_owned(),
            "APT::Architecture=amd64".to_owned(),
        ];
        Ok(Self { entry, options })
    }

    /// The image's package, then the packages that hold the rest of the kernel.
    fn packages(&self) -> Result<Vec<String>, RigError> {
        let meta = self.depends("linux-image-amd64")?;
        let Some(image) = meta.into_iter().find(|name| name.starts_with("linux-image-")) else {
            return self.fail("the package linux-image-amd64 names no image".to_owned());
        };
        let rest = self.depends(&image)?;
        let is_part = |name: &String| name.starts_with("linux-binary-") || name.starts_with("linux-modules-");
        let mut packages = vec![image];
        packages.extend(rest.into_iter().filter(is_part));
        Ok(packages)
    }

    fn depends(&self, package: &str) -> Result<Vec<String>, RigError> {
        let text = self.run("apt-cache", &["show", "--no-all-versions", package])?;
        let line = text.lines().find_map(|line| line.strip_prefix("Depends: ")).unwrap_or_default();
        let names = line.split([',', '|']).filter_map(|part| part.split_whitespace().next());
        Ok(names.map(str::to_owned).collect())
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, RigError> {
        self.run_in(Path::new("/"), program, arguments)
    }

    fn run_in(&self, folder: &Path, program: &str, arguments: &[&str]) -> Result<String, RigError> {
        let mut command = Command::new(program);
        command.current_dir(folder).stdin(Stdio::null()).env("LC_ALL", "C");
        for option in &self.options {
            command.args(["-o", option]);
        }
        let output = command.arg("-q").args(arguments).output();
        let output = match output {
            Ok(output) => output,
            Err(error) => return self.fail(format!("cannot run {program}: {error}")),
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().filter(|line| line.starts_with("E:")).collect::<Vec<_>>().join("; ");
        self.fail(format!("`{program} {}` failed: {said}", arguments.join(" ")))
    }

    fn fail<T>(&self, reason: String) -> Result<T, RigError> {
        Err(RigError::Fetch { kernel: self.entry.name, reason })
    }
}

/// The mirror that the system fetches its own packages from.
fn mirror(entry: &KernelEntry) -> Result<String, RigError> {
    let fail = |reason: String| Err(RigError::Fetch { kernel: entry.name, reason });
    let targets = Command::new("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(LABEL)", "Created-By: Packages"])
        .stderr(Stdio::null())
        .output();
    let targets = match targets {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => return fail(format!("cannot run apt-get: {error}")),
    };
    mirror_in(&targets).map_or_else(
        || {
            fail(
                "the package manager is configured with no mirror of Debian's archive: add one to its sources"
                    .to_owned(),
            )
        },
        Ok,
    )
}

/// The archive itself among lines of `URI ORIGIN LABEL`, not security updates or packages of others. Origin and label are known
/// only after the first update; until then the usual last part of the URI decides.
fn mirror_in(targets: &str) -> Option<String> {
    let by_name = targets.lines().filter_map(|line| line.strip_suffix(" Debian Debian")).next();
    let uris = targets.lines().filter_map(|line| line.split(' ').next());
    let by_path = || uris.map(|uri| uri.trim_end_matches('/')).find(|uri| uri.ends_with("/debian"));
    by_name.or_else(by_path).map(|uri| uri.trim_end_matches('/').to_owned())
}

/// Takes files that a guest may need out of the packages in `folder`, and removes the packages.
fn unpack(kernel: &'static str, folder: &Path) -> Result<(), RigError> {
    const WANTED: &[&str] = &[
        "*/vmlinuz*",
        "*/config-*",
        "*/kernel/lib/*",
        "*/kernel/crypto/*",
        "*/kernel/arch/x86/crypto/*",
        "*/kernel/mm/*",
        "*/kernel/fs/ext4/*",
        "*/kernel/fs/jbd2/*",
        "*/kernel/fs/mbcache*",
        "*/kernel/fs/xfs/*",
        "*/kernel/drivers/block/*",
        "*/kernel/drivers/virtio/*",
    ];
    let entries = fs::read_dir(folder).map_err(RigError::io(folder))?.flatten().map(|entry| entry.path());
    let packages: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect();
    for package in packages {
        let fail = |error: &dyn std::fmt::Display| RigError::Fetch {
            kernel,
            reason: format!("cannot unpack {}: {error}", package.display()),
        };
        let mut tar = Command::new("dpkg-deb")
            .arg("--fsys-tarfile")
            .arg(&package)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| fail(&error))?;
        let stream = tar.stdout.take().expect("asked for");
        let mut untar = Command::new("tar");
        untar.args(["-x", "--wildcards", "--no-same-owner", "-C"]).arg(folder).args(WANTED);
        // A package need not contain all wanted files: tar then fails, so the result is checked afterwards.
        let _ = untar.stdin(stream).stderr(Stdio::null()).status().map_err(|error| fail(&error))?;
        let status = tar.wait().map_err(|error| fail(&error))?;
        if !status.success() {
            return Err(fail(&status));
        }
        fs::remove_file(&package).map_err(RigError::io(&package))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_archive_itself() {
        let security = "http://mirror.example/debian-security/ Debian Debian-Security\n";
        let archive = "http://mirror.example/debian/ Debian Debian\n";
        let other = "https://packages.example/apt/ Example Example\n";
        let found = mirror_in(&format!("{other}{security}{archive}"));
        assert_eq!(found.as_deref(), Some("http://mirror.example/debian"));
        // Before the first update only the URI is known.
        let found = mirror_in(
            "https://packages.example/apt/  \nhttp://mirror.example/debian-security/  \nhttp://m.example/debian/  \n",
        );
        assert_eq!(found.as_deref(), Some("http://m.example/debian"));
        assert_eq!(mirror_in(other), None);
        assert_eq!(mirror_in(""), None);
    }

    #[test]
    fn an_unknown_kernel_is_refused_with_those_there_are() {
        let error = KernelEntry::named("2.4").unwrap_err().to_string();
        assert_eq!(error, "no kernel is called `2.4`; there are 6.1, 6.12, 7.2");
        assert_eq!(KernelEntry::named("newest").unwrap(), KernelEntry::named("7.2").unwrap());
    }

    #[test]
    fn a_suite_that_moved_on_is_seen() {
        let entry = KernelEntry::named("6.1").unwrap();
        for (release, expected) in
            [("6.1.0-28-amd64", true), ("6.1-amd64", true), ("6.12.48-amd64", false), ("7.2.1", false)]
        {
            let kernel = Kernel { release: release.to_owned(), image: PathBuf::new(), modules: PathBuf::new() };
            assert_eq!(entry.is_of_its_release(&kernel), expected, "{release}");
        }
    }

    #[test]
    fn a_folder_is_a_kernel_only_when_whole() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Kernel::in_folder(folder.path()), None);
        let modules = folder.path().join("usr/lib/modules/6.12.1-test");
        fs::create_dir_all(&modules).unwrap();
        assert_eq!(Kernel::in_folder(folder.path()), None);
        fs::write(modules.join("vmlinuz"), b"image").unwrap();
        let kernel = Kernel::in_folder(folder.path()).unwrap();
        assert_eq!((kernel.release.as_str(), kernel.image), ("6.12.1-test", modules.join("vmlinuz")));
    }
}
