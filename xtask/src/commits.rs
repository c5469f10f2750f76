//! Commit subjects: `area: what`, at most 72 characters, so that lists of commits can be read in a terminal.
//!
//! `.githooks/commit-msg` refuses a longer one when it is written (`make hooks`). Commits already in the history only give a warning.
//!
//! Only commits that can still be reworded are checked: those that the upstream branch does not have. Without an upstream, or if it
//! has all of them, the newest are checked. In a shallow clone only existing commits are checked.

use std::path::Path;
use std::process::Command;

use crate::Findings;

/// Characters of a subject.
const LONGEST: usize = 72;

/// Commits checked. Older ones were checked when they were new, or are from before the rule.
const NEWEST: usize = 20;

/// Where the branch may have come from, the likeliest first.
const UPSTREAMS: &[&str] = &["@{upstream}", "origin/HEAD", "origin/main", "main"];

/// Judges the subjects of the checkout at `root`.
pub(crate) fn run(root: &Path) -> Findings {
    let range = branched_from(root).map_or("HEAD".to_owned(), |base| format!("{base}..HEAD"));
    let newest = format!("--max-count={NEWEST}");
    let Some(list) = git(root, &["log", "--no-merges", &newest, "--format=%h %s", &range, "--"]) else {
        println!("commits: subjects are not checked: no commits can be read here");
        return Findings::new();
    };
    list.lines().filter_map(|line| line.split_once(' ')).filter_map(|(id, subject)| judge(id, subject)).collect()
}

/// The newest commit that this branch shares with its upstream, unless that is the branch's own newest.
fn branched_from(root: &Path) -> Option<String> {
    let head = git(root, &["rev-parse", "HEAD"])?;
    UPSTREAMS.iter().filter_map(|upstream| git(root, &["merge-base", "HEAD", upstream])).find(|base| *base != head)
}

/// Files that the branch has changed since it left its upstream: in commits, in the working tree, and new ones. `None` without git.
pub(crate) fn changed_files(root: &Path) -> Option<Vec<String>> {
    let base = branched_from(root).unwrap_or_else(|| "HEAD".to_owned());
    let changed = git(root, &["diff", "--name-only", "--no-renames", &base, "--"])?;
    let new = git(root, &["ls-files", "--others", "--exclude-standard"])?;
    Some(changed.lines().chain(new.lines()).map(str::to_owned).collect())
}

fn judge(id: &str, subject: &str) -> Option<String> {
    let length = subject.chars().count();
    if length > LONGEST {
        return Some(format!("commit {id}: the subject has {length} characters, at most {LONGEST}: {subject}"));
    }
    None
}

/// Output of git; `None` if it fails: no git, no repository, no such commit.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // In a hook these variables name the repository of the hook.
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"].iter().for_each(|name| _ = command.env_remove(name));
    let output = command.arg("-C").arg(root).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Overrides the user's configuration.
    const SET: [&str; 6] = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"];

    /// A repository independent of the user's configuration.
    struct Planted(std::path::PathBuf);

    impl Planted {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("isotherm-commits-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&root).unwrap();
            let planted = Self(root);
            planted.git(&["init", "--quiet", "--initial-branch=main"]);
            planted
        }

        fn git(&self, arguments: &[&str]) {
            let all: Vec<&str> = SET.iter().chain(arguments).copied().collect();
            git(&self.0, &all).unwrap_or_else(|| panic!("git {arguments:?} failed"));
        }

        fn commit(&self, subject: &str) {
            self.git(&["commit", "--quiet", "--allow-empty", "--no-verify", "-m", subject]);
        }
    }

    impl Drop for Planted {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn long(name: &str) -> String {
        format!("{name}: {}", "ä".repeat(LONGEST))
    }

    #[test]
    fn long_subjects_of_the_branch_are_refused_and_older_ones_are_not() {
        let repository = Planted::new("branch");
        repository.commit(&long("old"));
        repository.git(&["checkout", "--quiet", "-b", "work"]);
        let longest = "ä".repeat(LONGEST);
        repository.commit(&longest);
        assert_eq!(run(&repository.0), Findings::new(), "the longest is allowed, and main's are not judged");
        repository.commit(&long("new"));
        let findings = run(&repository.0);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains("77 characters, at most 72: new: ä"), "{findings:?}");
    }

    #[test]
    fn without_an_upstream_the_newest_are_judged() {
        let repository = Planted::new("newest");
        repository.commit(&long("old"));
        (1..NEWEST).for_each(|nth| repository.commit(&format!("short: {nth}")));
        assert_eq!(run(&repository.0).len(), 1);
        repository.commit("short: one more");
        assert_eq!(run(&repository.0), Findings::new(), "it is too old now");
    }

    #[test]
    fn the_hook_refuses_what_the_check_would_warn_about() {
        let repository = Planted::new("hook");
        let hooks = crate::workspace::root().join(".githooks");
        repository.git(&["config", "core.hooksPath", hooks.to_str().unwrap()]);
        let commit =
            |subject: &str| git(&repository.0, &[&SET[..], &["commit", "--allow-empty", "-m", subject]].concat());
        assert!(commit(&"ä".repeat(LONGEST)).is_some());
        assert!(commit(&"ä".repeat(LONGEST + 1)).is_none());
        assert!(commit(&format!("fixup! {}", "ä".repeat(LONGEST))).is_some(), "it is melted into another");
        let body = format!("short: subject\n\n{}", "a long line of a body ".repeat(9));
        assert!(commit(&body).is_some(), "a body has no bound");
        assert_eq!(git(&repository.0, &["log", "--format=%s"]).unwrap().lines().count(), 3);
    }

    #[test]
    fn changed_files_are_those_of_commits_and_of_the_working_tree() {
        let repository = Planted::new("changed");
        let write = |name: &str| std::fs::write(repository.0.join(name), name).unwrap();
        write("old");
        repository.git(&["add", "."]);
        repository.commit("first");
        repository.git(&["checkout", "--quiet", "-b", "work"]);
        assert_eq!(changed_files(&repository.0).unwrap(), [""; 0]);
        write("committed");
        repository.git(&["add", "."]);
        repository.commit("second");
        write("new");
        std::fs::write(repository.0.join("old"), "other").unwrap();
        assert_eq!(changed_files(&repository.0).unwrap(), ["committed", "old", "new"]);
        assert!(changed_files(Path::new("/nowhere")).is_none());
    }

    #[test]
    fn shallow_clones_and_folders_without_commits_pass() {
        let repository = Planted::new("deep");
        (0..3).for_each(|nth| repository.commit(&format!("short: {nth}")));
        let shallow = Planted::new("shallow");
        let from = format!("file://{}", repository.0.display());
        shallow.git(&["fetch", "--quiet", "--depth=1", &from, "main"]);
        shallow.git(&["checkout", "--quiet", "--detach", "FETCH_HEAD"]);
        assert_eq!(run(&shallow.0), Findings::new());
        let empty = Planted::new("empty");
        assert_eq!(run(&empty.0), Findings::new());
    }
}
