//! Tests of `scripts/setup` with stand-ins: each command that it could run records its arguments, and nothing is installed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use crate::workspace;

/// Commands that the script uses on every system.
const PLAIN: &str = "cat chmod dirname env grep ls mkdir mktemp rm sed sh sha256sum sort tail tr";

/// A machine of stand-in commands: a folder that is its whole PATH.
struct Machine(PathBuf);

impl Machine {
    /// Neither compiler nor Rust; the user's number is `uid`.
    fn bare(name: &str, uid: u32) -> Self {
        let root = std::env::temp_dir().join(format!("isotherm-setup-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("bin")).unwrap();
        let machine = Self(root);
        for tool in PLAIN.split(' ') {
            let place = ["/usr/bin", "/bin"].map(|folder| PathBuf::from(folder).join(tool));
            let place = place.iter().find(|place| place.exists()).expect("every system has it");
            symlink(place, machine.0.join("bin").join(tool)).unwrap();
        }
        machine.put("id", &format!("echo {uid}"));
        machine.put("uname", "echo x86_64");
        // It finds no Valgrind headers.
        machine.put("make", "false");
        machine
    }

    fn put(&self, name: &str, script: &str) {
        let place = self.0.join("bin").join(name);
        fs::write(&place, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A package manager that records its arguments and installs the needs of a demo.
    fn put_manager(&self, name: &str) {
        let bin = self.0.join("bin");
        let tools = "for tool in cc make; do printf '#!/bin/sh\\n' >$bin/$tool; chmod +x $bin/$tool; done";
        let cargo = "printf '#!/bin/sh\\necho cargo 1.999.0\\n' >$bin/cargo; chmod +x $bin/cargo";
        self.put(name, &format!("bin={}; echo {name} $* >>{}/log\n{tools}; {cargo}", bin.display(), self.0.display()));
    }

    /// Its exit code, its output, and the commands it called, without the lists of packages, which the real machine has or has not.
    fn setup(&self, target: &str, answer: &str) -> (Option<i32>, String, Vec<String>) {
        self.call("setup", target, answer)
    }

    fn call(&self, script: &str, target: &str, answer: &str) -> (Option<i32>, String, Vec<String>) {
        let mut command = Command::new(workspace::root().join("scripts").join(script));
        command.arg(target).env_clear().env("PATH", self.0.join("bin")).env("HOME", &self.0).env("SETUP", answer);
        command.env("OS_RELEASE", self.0.join("os-release")).env("CARGO_TARGET_DIR", &self.0);
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        let log = fs::read_to_string(self.0.join("log")).unwrap_or_default();
        let is_list = |line: &&str| line.starts_with("apt-get update") || line.ends_with(" -Sy");
        let called = log.lines().filter(|line| !is_list(line)).map(str::to_owned);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned(), called.collect())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn nothing_missing_is_silent() {
    let machine = Machine::bare("complete", 1000);
    machine.put_manager("apt-get");
    machine.put("cc", "");
    machine.put("make", "");
    machine.put("cargo", "echo cargo 1.999.0");
    assert_eq!(machine.setup("demo", ""), (Some(0), String::new(), vec![]));
}

#[test]
fn root_gets_what_is_missing_by_each_package_manager() {
    let calls = [
        ("apt-get", "install -y --no-install-recommends ca-certificates gcc libc6-dev rustup valgrind"),
        ("dnf", "install -y --setopt=install_weak_deps=False gcc glibc-devel rustup valgrind valgrind-tools-devel"),
        ("pacman", "-S --needed --noconfirm gcc rustup valgrind"),
        ("apk", "add --no-cache gcc musl-dev rustup valgrind valgrind-dev"),
    ];
    for (manager, call) in calls {
        let machine = Machine::bare(manager, 0);
        machine.put_manager(manager);
        machine.put("apt-cache", "echo Package: rustup");
        let (code, said, called) = machine.setup("demo", "");
        assert_eq!((code, called), (Some(0), vec![format!("{manager} {call}")]), "{said}");
        assert!(said.contains("missing: a C compiler and the headers of libc; Rust; Valgrind"), "{said}");
        assert!(said.contains(call) && said.contains("installing that now"), "{said}");
    }
}

#[test]
fn a_user_gets_nothing_unasked() {
    let machine = Machine::bare("user", 1000);
    machine.put_manager("apt-get");
    machine.put("apt-cache", "echo Package: rustup");
    machine.put("sudo", "exec \"$@\"");
    let (code, said, called) = machine.setup("demo", "");
    assert_eq!((code, called), (Some(1), vec![]), "{said}");
    assert!(said.contains("sudo apt-get install") && said.contains("make again with SETUP=yes"), "{said}");
    let (code, said, called) = machine.setup("demo", "yes");
    assert_eq!((code, called.len()), (Some(0), 1), "{said}");
}

#[test]
fn without_sudo_or_with_a_no_it_says_the_command() {
    for (uid, answer, why) in [(1000, "yes", "there is no sudo here"), (0, "no", "SETUP=no")] {
        let machine = Machine::bare("command", uid);
        machine.put_manager("apt-get");
        machine.put("apt-cache", "echo Package: rustup");
        let (code, said, called) = machine.setup("demo", answer);
        assert_eq!((code, called), (Some(1), vec![]), "{said}");
        assert!(said.contains("As root: apt-get") && said.contains(why), "{said}");
    }
}

#[test]
fn an_unknown_system_is_told_what_to_install() {
    let machine = Machine::bare("unknown", 0);
    let (code, said, _) = machine.setup("demo", "");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no apt-get, dnf, pacman or apk here") && said.contains("a C compiler"), "{said}");
}

#[test]
fn a_failure_is_told_with_its_last_lines() {
    let machine = Machine::bare("failure", 0);
    machine.put("dnf", "echo 'No space left on device' >&2; exit 1");
    let (code, said, _) = machine.setup("demo", "");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("    No space left on device"), "{said}");
    assert!(said.contains("could not install: a C compiler") && said.contains("As root: dnf install"), "{said}");
}

#[test]
fn what_can_be_done_without_stops_nothing() {
    let machine = Machine::bare("without", 1000);
    machine.put("cc", "");
    machine.put("cargo", "echo cargo 1.999.0");
    let (code, said, _) = machine.setup("demo", "");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("going on without: Valgrind"), "{said}");
}

#[test]
fn an_old_cargo_is_left_and_told() {
    let machine = Machine::bare("old", 0);
    machine.put("cc", "");
    machine.put("make", "");
    machine.put("cargo", "echo 'cargo 1.63.0 (fd9c4297c 2022-07-01)'");
    let (code, said, _) = machine.setup("demo", "");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is cargo 1.63.0, and 1.") && said.contains("scripts/install-rustup"), "{said}");
}

/// Debian 12: rustup's installer is fetched, and run only if its checksum is the expected one.
#[test]
fn without_a_package_rustup_is_fetched_and_checked() {
    let machine = Machine::bare("fetched", 0);
    machine.put_manager("apt-get");
    // It knows the name from other packages: apt-cache says nothing, and succeeds.
    machine.put("apt-cache", "");
    fs::write(machine.0.join("os-release"), "ID=debian\nVERSION_ID=\"12\"\n").unwrap();
    let log = machine.0.join("log");
    let init = "#!/bin/sh\\necho rustup-init $* >>%s\\n";
    machine.put("curl", &format!("echo curl $* >>{0}; printf '{init}' {0} >$3", log.display()));
    let (code, said, called) = machine.call("install-rustup", "", "");
    assert_eq!((code, called.len()), (Some(1), 1), "{said}");
    assert!(said.contains("its sha256 is not 20a06e64"), "{said}");
    fs::remove_file(machine.0.join("bin/sha256sum")).unwrap();
    machine.put("sha256sum", "cat >/dev/null");
    let (code, said, called) = machine.setup("demo", "");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(called[1], "apt-get install -y --no-install-recommends gcc libc6-dev valgrind");
    assert!(
        called[2].ends_with("https://static.rust-lang.org/rustup/archive/1.28.2/x86_64-unknown-linux-gnu/rustup-init")
    );
    assert_eq!(called[3], "rustup-init -y -q --no-modify-path --profile minimal --default-toolchain none");
}
