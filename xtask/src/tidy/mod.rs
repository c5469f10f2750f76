//! The house rules that a program can check. Each file here is one family of rules; `CONTRIBUTING.md` is their index.
//!
//! Also a test, so that `cargo test --workspace` cannot pass on an untidy checkout.

mod bare;
mod cases;
mod citations;
mod code;
mod manifests;
mod markdown;
mod text;
pub(crate) mod words;
mod writers;

use std::path::{Path, PathBuf};

use crate::{Findings, workspace};

/// One text file of the checkout.
struct File {
    /// Relative to the root, with `/`.
    path: String,
    text: String,
}

impl File {
    fn is(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, end)| end == extension)
    }

    fn at(&self, line_index: usize, what: &str) -> String {
        format!("{}:{}: {what}", self.path, line_index + 1)
    }
}

/// Checks every rule on every file below `root`.
pub(crate) fn run(root: &Path) -> Findings {
    let paths = workspace::files(root);
    let mut findings = text::sizes(root, &paths);
    let files = read_all(root, &paths);
    let pages = citations::Pages::of(&files);
    for file in &files {
        // The tests of these rules cite pages that do not exist.
        if !file.path.starts_with("xtask/src/tidy/") {
            citations::check(file, &pages, &mut findings);
        }
        text::check(file, &mut findings);
        if file.is("rs") {
            code::check(file, &mut findings);
            cases::check(file, &files, &mut findings);
        }
        if file.is("md") {
            markdown::check(root, file, &files, &mut findings);
        }
    }
    manifests::check(&files, &mut findings);
    words::check(&files, &mut findings);
    writers::check(&files, &mut findings);
    findings.sort();
    findings
}

/// All text files of the checkout.
fn sources(root: &Path) -> Vec<File> {
    read_all(root, &workspace::files(root))
}

fn read_all(root: &Path, paths: &[PathBuf]) -> Vec<File> {
    paths.iter().filter_map(|path| read(root, path)).collect()
}

/// Text of files whose name says that they are text.
fn read(root: &Path, path: &PathBuf) -> Option<File> {
    const TEXT: &[&str] = &["rs", "toml", "md", "py", "sh", "html", "css", "js", "svg", "txt", "json", "csv", "masim"];
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
    let named = path.file_name().is_some_and(|name| name == "Makefile");
    if !named && !TEXT.contains(&extension) && !path.starts_with("scripts") && !path.starts_with(".ci") {
        return None;
    }
    let text = std::fs::read_to_string(root.join(path)).ok()?;
    Some(File { path: path.to_string_lossy().into_owned(), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkout_is_tidy() {
        let findings = run(&workspace::root());
        assert!(findings.is_empty(), "house rules are broken:\n{}", findings.join("\n"));
    }

    /// Every rule must be able to fail: a small bad checkout breaks each of them.
    #[test]
    fn each_rule_can_fail() {
        let root = std::env::temp_dir().join(format!("isotherm-tidy-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let marker = concat!("TO", "DO");
        write(
            "crates/sim/src/lib.rs",
            &format!(
                "use std::collections::HashMap;\nfn f() {{ let t = Instant::now(); }}\n// {marker}: later\n\
                 fn g() {{ unsafe {{ }} }}\n#[ignore]\n{}\n\tlet tab;\ntrailing \n{}",
                "x".repeat(150),
                "\n".repeat(700)
            ),
        );
        write(
            "crates/sim/Cargo.toml",
            "[package]\nlicense = \"WTFPL\"\n[dependencies]\nisotherm-cli.workspace = true\n",
        );
        write("docs/a.md", "See [b](b.md), [c](a.md#no-such-heading), run:\n```console\n$ make nonsense\n```\n");
        write("crates/linux/src/other.rs", "fn f() { std::fs::write(\"/etc/passwd\", \"\") }\n");
        write("docs/spec/clock.md", "# Clock\n\n<a id=\"s1\"></a>\n\n## 1. Hands\n");
        write(
            "crates/sim/src/cited.rs",
            "//! As docs/spec/clock.md#s1 says, but docs/spec/clock.md#s2 does not (docs/spec/none.md).\n//! clock.md section 1\n",
        );
        write("crates/sim/tests/main.rs", "mod other;\n");
        write("crates/sim/tests/forgotten.rs", "#[test]\n#[ignore = \"nightly: hours\"]\nfn unlisted() {}\n");
        write("Makefile", "test:\n\ttrue\n");
        write("traces/big.parquet", &"x".repeat(3_500_000));
        let findings = run(&root).join("\n");
        std::fs::remove_dir_all(&root).unwrap();
        for part in [
            "HashMap",
            "`fs::write(` as root",
            "Instant::now",
            "leftover",
            "unsafe",
            "ignored test",
            "does not list `unlisted`",
            "no line `mod forgotten;`",
            "140",
            "700",
            "tab",
            "trailing space",
            "lints",
            "licence",
            "isotherm-cli",
            "b.md",
            "no-such-heading",
            "nonsense",
            "the index",
            "3 MiB",
            "no heading or anchor `s2`",
            "there is no docs/spec/none.md",
            "not the bare name",
        ] {
            assert!(findings.contains(part), "no finding about `{part}` in:\n{findings}");
        }
    }
}
