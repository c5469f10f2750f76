//! Rust source without the contents of strings and comments, line by line: only code is left.

/// Lines of `text` with the contents of string literals and all comments taken out. A line keeps its number.
pub(super) fn lines(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = skip(rest);
        if skipped > 0 {
            let (dropped, after) = rest.split_at(skipped);
            // Line ends inside count; the quotes stay to mark the literal.
            lines.extend(dropped.matches('\n').map(|_| String::new()));
            if !dropped.starts_with('/') {
                lines.last_mut().expect("never empty").push_str("\"\"");
            }
            rest = after;
            continue;
        }
        match c {
            '\n' => lines.push(String::new()),
            _ => lines.last_mut().expect("never empty").push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    lines
}

/// Length of the string literal, character literal of a quote, or comment at the start of `rest`; 0 for anything else.
fn skip(rest: &str) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return rest.find("*/").map_or(rest.len(), |end| end + 2);
    }
    if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
        return rest[1..].find('\'').map_or(rest.len(), |end| end + 2);
    }
    if let Some(raw) = rest.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", &raw[..hashes]);
            let start = 1 + hashes + 1;
            return rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len());
        }
    }
    if rest.starts_with('"') {
        let mut escaped = false;
        for (at, c) in rest.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => return at + 1,
                _ => {}
            }
        }
        return rest.len();
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_taken_out() {
        let table = [
            ("a \"b \\\" c\" d // e\nf", vec!["a \"\" d ", "f"]),
            ("x(r#\"one\ntwo \" \"#) y", vec!["x(", "\"\") y"]),
            ("if c == '\"' { /* \" */ g }", vec!["if c == \"\" {  g }"]),
            ("for r in rows {}", vec!["for r in rows {}"]),
        ];
        for (text, expected) in table {
            assert_eq!(lines(text), expected, "{text}");
        }
    }
}
