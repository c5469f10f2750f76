//! Names of groups that a tenant chooses.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

/// Longest name of a file, in bytes.
const NAME_MAX: usize = 255;

/// The name of the group of this number: blanks, escapes, quotes, what is no UTF-8, names of others' services, very long ones. Line breaks
/// are refused by the kernel.
pub(super) fn of(number: u64) -> OsString {
    let text = |words: String| words.into_bytes();
    let mut bytes = match number % 12 {
        0 => text(format!("a b  {number} ")),
        1 => text(format!("\u{1b}[31m{number}\u{1b}]0;x\u{7}")),
        2 => [b"\xff\xfe\xc3", number.to_string().as_bytes()].concat(),
        3 if number % 24 == 3 => text("ssh.service".to_owned()),
        3 => text(format!("ssh-{number}.service")),
        4 => text(format!("web-{number}")),
        5 => text(format!("x\\x2d{number}")),
        6 => text(format!("line\n{number}")),
        7 => text(format!("\"}},{{\"{number}")),
        8 => text(format!("..{number}*?[a]")),
        9 => text(format!("init.scope.{number}")),
        10 => text(format!("\u{202e}{number}\u{0}").replace('\0', "\t")),
        _ => text(format!("{number}-")),
    };
    if number % 12 == 11 {
        bytes.resize(NAME_MAX, b'n');
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn names_fit_into_a_folder() {
        let names: Vec<OsString> = (0..240).map(of).collect();
        assert!(names.iter().all(|name| (1..=NAME_MAX).contains(&name.len())));
        assert!(names.iter().all(|name| !name.as_bytes().contains(&b'/') && !name.as_bytes().contains(&0)));
        assert!(names.iter().any(|name| name.to_str().is_none()) && names.contains(&OsString::from("ssh.service")));
        // One name is used again and again.
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 240 - 9);
    }
}
