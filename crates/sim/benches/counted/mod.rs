//! Instructions of a bench's own program, counted by Valgrind, which does not care how busy the host is.

#![expect(clippy::print_stderr, reason = "a benchmark's output")]

use std::process::Command;

/// Comes before the arguments of a counted run.
pub(crate) const COUNTED: &str = "--counted";

/// The arguments of a counted run, if this is one.
pub(crate) fn arguments() -> Option<Vec<String>> {
    let mut arguments = std::env::args().skip_while(|argument| argument != COUNTED);
    arguments.next().map(|_| arguments.collect())
}

/// Whether instructions alone are asked for, and no times (`cargo xtask bench --count`).
pub(crate) fn is_all() -> bool {
    std::env::args().any(|argument| argument == "--count")
}

/// Instructions in user mode of this program with these arguments; `None`, with a line that says so, without Valgrind.
pub(crate) fn instructions(arguments: &[String]) -> Option<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(std::env::current_exe().expect("a file"))
        .arg(COUNTED)
        .args(arguments)
        .output();
    let Ok(output) = output else {
        eprintln!("valgrind is not installed (scripts/install-test-needs): instructions are not counted");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let refs = said.lines().find(|line| line.contains("refs:")).expect("a count");
    let digits: String = refs.rsplit(':').next().unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
    Some(digits.parse().expect("digits"))
}
