//! Values of knobs of the kernel.

use crate::{LiveError, Root};
use std::path::Path;

/// Value of a knob, without surrounding white space; for a choice, the selected word.
///
/// # Errors
/// [`LiveError::Io`].
pub fn value_of(root: &Root, path: impl AsRef<Path>) -> Result<String, LiveError> {
    root.read(path).map(|text| selected(&text).to_owned())
}

/// The value in the text of a knob.
pub fn selected(text: &str) -> &str {
    let text = text.trim();
    let word = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    word.unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_choice_the_chosen_word_counts() {
        for (text, value) in
            [("always [madvise] never\n", "madvise"), (" 12\n", "12"), ("", ""), ("[]", ""), ("a [b", "a [b")]
        {
            assert_eq!(selected(text), value, "{text}");
        }
    }
}
