//! Whether the exit code of a restore says what happened.

use crate::tool::ToolEnd;

/// What codes do not say, a line each. `ends`: restores one after the other, each of which printed what became of each open change. So the
/// list of the next one says what one left open; `is_one_journal`: of the last one too, before which the state of the machine was ended.
/// That one must leave nothing.
pub(super) fn wrong_codes(ends: &[ToolEnd], is_one_journal: bool) -> impl Iterator<Item = String> {
    let pairs = ends.windows(2).take(ends.len().saturating_sub(if is_one_journal { 1 } else { 2 }));
    let mut wrong: Vec<String> = pairs.filter_map(|pair| undocumented(&pair[0], &pair[1])).collect();
    let last = ends.last().filter(|end| end.code != Some(0));
    wrong.extend(last.map(|end| format!("afterwards exit code {:?}: {}", end.code, end.stderr.trim())));
    wrong.into_iter()
}

/// 0: nothing of the program's is left. 4: something was left alone, or could not be noted and so is still open for the next one. Nothing
/// else is right here: there is no knob that cannot be restored.
fn undocumented(end: &ToolEnd, next: &ToolEnd) -> Option<String> {
    let rows = |end: &ToolEnd| serde_json::from_str::<Vec<serde_json::Value>>(&end.stdout);
    let (Ok(done), Ok(open)) = (rows(end), rows(next)) else {
        return Some(format!("no list: {:?} {}; {:?} {}", end.code, end.stderr.trim(), next.code, next.stderr.trim()));
    };
    let is_partial = !open.is_empty() || done.iter().any(|row| row["result"] == "left alone");
    let expected = if is_partial { 4 } else { 0 };
    let says = || format!("exit code {:?} in the place of {expected}: {}", end.code, end.stderr.trim());
    (end.code != Some(expected)).then(says)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_says_what_happened() {
        let end =
            |code, stdout: &str| ToolEnd { code: Some(code), stdout: stdout.to_owned(), stderr: "why".to_owned() };
        let (none, back, alone) = ("[]", "[{\"result\":\"put back\"}]", "[{\"result\":\"left alone\"}]");
        for (code, done, left, is_right) in [
            (0, back, none, true),
            (4, back, back, true),
            (4, alone, none, true),
            (0, back, back, false),
            (4, back, none, false),
            (0, alone, none, false),
            (1, back, none, false),
        ] {
            let why = undocumented(&end(code, done), &end(0, left));
            assert_eq!(why.is_none(), is_right, "{code} {done} {left}: {why:?}");
        }
        assert!(
            undocumented(&end(0, "error"), &end(0, none)).is_some_and(|why| why.starts_with("no list: Some(0) why"))
        );
        let count = |ends: &[ToolEnd], is_one_journal| wrong_codes(ends, is_one_journal).count();
        let partial = [end(4, back), end(4, back), end(0, back)];
        assert_eq!(count(&partial, true), 0);
        assert_eq!(count(&[end(4, back), end(4, back), end(4, back)], true), 1, "the last one leaves nothing");
        let other_boot = [end(0, back), end(0, none), end(0, back)];
        assert_eq!((count(&other_boot, false), count(&other_boot, true)), (0, 1));
    }
}
