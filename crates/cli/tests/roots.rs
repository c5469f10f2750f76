//! README's first commands in clean roots of Debian releases, as a user without privileges, with only Python and the files of `make
//! install`. Needs root, `mmdebstrap` and the network; skipped with a message, or an error when ISOTHERM_REQUIRE_ALL=1.
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use crate::record::tutorial;

/// Debian 12 and 13.
const RELEASES: [&str; 2] = ["bookworm", "trixie"];

pub(crate) fn skip(why: &str) {
    assert!(std::env::var_os("ISOTHERM_REQUIRE_ALL").is_none_or(|value| value != "1"), "{why}");
    eprintln!("skipped: {why}");
}

fn output(program: &str, arguments: &[&str]) -> Option<Output> {
    Command::new(program).args(arguments).output().ok()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Tests of this file share the roots.
static ROOTS: Mutex<()> = Mutex::new(());

/// Makes the root of a release, or reuses an existing one.
fn root_of(release: &str) -> Result<PathBuf, String> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache =
        cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"))).ok_or("HOME is not set")?;
    let root = cache.join("isotherm/roots").join(release);
    if root.join("usr/bin/python3").exists() {
        return Ok(root);
    }
    // Renamed into place only when complete.
    let unfinished = root.with_extension("unfinished");
    let _ = std::fs::remove_dir_all(&unfinished);
    std::fs::create_dir_all(&unfinished).map_err(|error| error.to_string())?;
    let place = unfinished.to_string_lossy();
    let made = output("mmdebstrap", &["--variant=minbase", "--include=python3", release, &place]);
    let made = made.ok_or("mmdebstrap is not installed (apt-get install mmdebstrap)")?;
    if !made.status.success() {
        return Err(format!("mmdebstrap cannot make a root of {release}: {}", said(&made)));
    }
    let _ = std::fs::remove_dir_all(&root);
    std::fs::rename(&unfinished, &root).map_err(|error| error.to_string())?;
    Ok(root)
}

/// Puts the command and its engine where `make install` does.
fn install(root: &Path) {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let _ = std::fs::remove_dir_all(root.join("usr/local/lib/isotherm"));
    let place = format!("DESTDIR={}", root.display());
    for arguments in [&["--silent", "recorder"][..], &["--silent", "install-recorder", &place]] {
        let made = Command::new("make").args(arguments).current_dir(&project).status();
        assert!(made.is_ok_and(|status| status.success()), "make {arguments:?} fails");
    }
    std::fs::copy(env!("CARGO_BIN_EXE_isotherm"), root.join("usr/local/bin/isotherm")).expect("it was built");
}

/// Runs a line in the root, in its own PID namespace, as an unprivileged user.
fn shell(root: &Path, line: &str) -> Output {
    let proc = format!("--mount-proc={}", root.join("proc").display());
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", &proc, "chroot", "--userspec=1000:1000"]).arg(root);
    command.args(["env", "-i", "HOME=/tmp", "PATH=/usr/local/bin:/usr/bin:/bin", "sh", "-c", line]);
    command.output().expect("util-linux and coreutils are there")
}

#[test]
#[ignore = "nightly: makes roots of two releases"]
fn readmes_first_commands_work_on_debian_12_and_13_without_privileges() {
    let id = output("id", &["-u"]);
    if id.is_none_or(|id| id.stdout != b"0\n") {
        return skip("roots of Debian releases are made by root");
    }
    let _alone = ROOTS.lock().unwrap_or_else(PoisonError::into_inner);
    for release in RELEASES {
        let root = match root_of(release) {
            Ok(root) => root,
            Err(why) => return skip(&why),
        };
        install(&root);
        let tutorial = shell(
            &root,
            &format!("rm -rf /tmp/tutorial && mkdir /tmp/tutorial && cd /tmp/tutorial && {}", tutorial().join(" && ")),
        );
        assert!(tutorial.status.success(), "{release}: {}", said(&tutorial));
        let words = said(&tutorial);
        assert!(words.contains("Recommendation: ") && words.contains("Working set in windows"), "{release}: {words}");
        let program = "d = {i: str(i) for i in range(500000)}; print(len(sorted(d.values())))";
        let recorded = shell(
            &root,
            &format!(
                "cd /tmp && rm -f app.py app.parquet && echo '{program}' > app.py && isotherm record -o app.parquet -- python3 app.py"
            ),
        );
        assert!(recorded.status.success(), "{release}: {}", said(&recorded));
        assert_eq!(recorded.stdout, b"500000\n", "{release}: the program's output is its own");
        assert!(said(&recorded).contains("page accesses"), "{release}: {}", said(&recorded));
        let advice = shell(
            &root,
            "cd /tmp && isotherm advise app.parquet --kernel 6.12 --memory 50%,75%,100% --details --report app.html --config app.toml && ls app.html app.toml",
        );
        assert!(advice.status.success(), "{release}: {}", said(&advice));
        assert!(said(&advice).contains("peak memory"), "{release}: {}", said(&advice));
        let gap = "what io_uring touches are not in the recording";
        assert!(said(&advice).split_whitespace().collect::<Vec<_>>().join(" ").contains(gap), "{}", said(&advice));
        assert!(said(&advice).contains("of files read and written"), "{release}: {}", said(&advice));
    }
}

/// Path of the output of `make WHAT`.
fn package(what: &str) -> PathBuf {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let made = Command::new("make").args(["--silent", what]).current_dir(&project).output().expect("make is there");
    assert!(made.status.success(), "make {what}: {}", said(&made));
    let path = String::from_utf8_lossy(&made.stdout).lines().last().expect("it says what it made").to_owned();
    project.join(path)
}

#[test]
#[ignore = "nightly: release builds, and roots of two releases"]
fn packages_install_and_run_on_debian_12_and_13() {
    let id = output("id", &["-u"]);
    if id.is_none_or(|id| id.stdout != b"0\n") {
        return skip("roots of Debian releases are made by root");
    }
    let _alone = ROOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let roots: Result<Vec<PathBuf>, String> = RELEASES.into_iter().map(root_of).collect();
    let roots = match roots {
        Ok(roots) => roots,
        Err(why) => return skip(&why),
    };
    let (deb, tarball) = (package("deb"), package("tarball"));
    for (release, root) in RELEASES.iter().zip(&roots) {
        std::fs::copy(&deb, root.join("tmp/isotherm.deb")).unwrap();
        std::fs::copy(&tarball, root.join("tmp/isotherm.tar.gz")).unwrap();
        let in_root = |line: &str| {
            let output =
                Command::new("chroot").arg(root).args(["sh", "-c", line]).output().expect("coreutils are there");
            assert!(output.status.success(), "{release}: {line}: {}", said(&output));
            said(&output)
        };
        in_root("dpkg --install /tmp/isotherm.deb");
        let installed = in_root("dpkg --listfiles isotherm");
        for file in [
            "/usr/lib/systemd/system/isotherm.service",
            "/usr/share/man/man1/isotherm-advise.1.gz",
            "/usr/share/bash-completion/completions/isotherm",
            "/usr/share/doc/isotherm/docs/use/tutorial.md",
            "/usr/share/doc/isotherm/isotherm.cdx.json",
            "/usr/lib/isotherm/valgrind/isorec-launcher",
        ] {
            assert!(installed.lines().any(|line| line == file), "{release}: {file}");
        }
        let advise = "advise /usr/share/isotherm/traces/sqlite.parquet --kernel 6.12 --memory 80% -q";
        let packaged = shell(root, &format!("/usr/bin/isotherm {advise}"));
        assert!(
            packaged.status.success() && said(&packaged).contains("Recommendation"),
            "{release}: {}",
            said(&packaged)
        );
        in_root(
            "rm -rf /tmp/static && mkdir /tmp/static && tar --extract --gzip --file /tmp/isotherm.tar.gz --directory /tmp/static",
        );
        let unpacked = shell(root, &format!("/tmp/static/*/bin/isotherm {advise}"));
        assert_eq!(said(&unpacked), said(&packaged), "{release}: the static program says the same");
        in_root("dpkg --remove isotherm && test ! -e /usr/bin/isotherm && rm -rf /tmp/static /tmp/isotherm.*");
    }
}
