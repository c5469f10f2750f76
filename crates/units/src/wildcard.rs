//! Names and paths with `*` and `?`.

/// Whether a name fits a pattern of `*` and `?`. Takes at most the product of both lengths in steps.
pub fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut taken) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while taken < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, taken));
                at += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[taken] => (at, taken) = (at + 1, taken + 1),
            _ => {
                // The last star takes one more character.
                let Some((place, from)) = star else { return false };
                star = Some((place, from + 1));
                (at, taken) = (place + 1, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

/// Whether a path belongs to a group of paths: its leading parts match the parts of the pattern, one by one.
pub fn is_within(pattern: &str, path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    pattern
        .split('/')
        .filter(|part| !part.is_empty())
        .all(|pattern| parts.next().is_some_and(|part| fits(pattern, part)))
}

/// Whether some path below this one belongs to the group of paths.
pub fn reaches_below(pattern: &str, path: &str) -> bool {
    let mut parts = pattern.split('/').filter(|part| !part.is_empty());
    let fits_all = path
        .split('/')
        .filter(|part| !part.is_empty())
        .all(|part| parts.next().is_some_and(|pattern| fits(pattern, part)));
    fits_all && parts.next().is_some()
}

/// Whether some path may belong to both of two groups of paths. Of two patterns in one part only the text before the first `*` or `?` is
/// compared, so the function may return true for two patterns that no name matches.
pub fn may_meet(one: &str, other: &str) -> bool {
    fn parts(path: &str) -> impl Iterator<Item = &str> {
        path.split('/').filter(|part| !part.is_empty())
    }
    let is_open = |part: &str| part.contains(['*', '?']);
    let start = |part: &str| part.find(['*', '?']).unwrap_or(part.len());
    parts(one).zip(parts(other)).all(|(one, other)| match (is_open(one), is_open(other)) {
        (false, _) => fits(other, one),
        (true, false) => fits(one, other),
        (true, true) => {
            let (one, other) = (&one.as_bytes()[..start(one)], &other.as_bytes()[..start(other)]);
            one.starts_with(other) || other.starts_with(one)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below() {
        for (pattern, path, is_below) in [
            ("/app.slice/db", "/app.slice", true),
            ("/app.slice/db", "/", true),
            ("/*/db*", "/app.slice", true),
            ("/app.slice/db", "/app.slice/db", false),
            ("/app.slice/db", "/app.slice/db/x", false),
            ("/app.slice/db", "/app", false),
            ("/app/db", "/app.slice", false),
        ] {
            assert_eq!(reaches_below(pattern, path), is_below, "{pattern} {path}");
        }
    }

    #[test]
    fn patterns() {
        for (pattern, name, is_fit) in [
            ("", "", true),
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b", "aXc", false),
            ("?", "", false),
            ("**", "a", true),
            ("a", "ab", false),
        ] {
            assert_eq!(fits(pattern, name), is_fit, "{pattern} {name}");
        }
        assert!(!fits(&"*a".repeat(50), &"b".repeat(5000)));
    }

    #[test]
    fn paths_are_within_groups_of_paths() {
        for (pattern, path, is_so) in [
            ("/", "/a", true),
            ("/a", "/a/b", true),
            ("/a/w-*", "/a/w-1/x", true),
            ("/a/b", "/a", false),
            ("/a/w-?", "/a/w-12", false),
            ("a//b/", "/a/b", true),
        ] {
            assert_eq!(is_within(pattern, path), is_so, "{pattern} {path}");
        }
    }

    #[test]
    fn groups_of_paths_meet_where_one_is_above_the_other() {
        for (one, other, is_so) in [
            ("/a", "/a/b", true),
            ("/", "/a", true),
            ("/a/b", "/a/c", false),
            ("/a/w-*", "/a/w-1/x", true),
            ("/a/w-*", "/a/db", false),
            ("/a/w-?", "/b", false),
            ("/a/w*", "/a/web?", true),
            ("/a/x*", "/a/y*", false),
        ] {
            assert_eq!((may_meet(one, other), may_meet(other, one)), (is_so, is_so), "{one} {other}");
        }
    }
}
