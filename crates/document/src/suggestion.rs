//! "Did you mean": the known name that is most like a misspelt one.

/// Adds "did you mean" to serde's "unknown field `x`, expected one of `a`, `b`".
pub fn with_suggestion(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((wrong, allowed)) if message.starts_with("unknown") => {
            let suggestion = nearest(wrong, allowed.iter().copied());
            suggestion.map_or_else(|| message.to_owned(), |name| format!("{message}; did you mean `{name}`?"))
        }
        _ => message.to_owned(),
    }
}

/// Longest word that is taken for a misspelt name, in bytes: comparing takes the product of both lengths.
const WORD_MAX: usize = 100;

/// The name most like `wrong`, if one is similar.
pub fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let names = names.filter(|name| wrong.len().max(name.len()) <= WORD_MAX);
    let scored = names.map(|name| (strsim::damerau_levenshtein(wrong, name), name));
    scored.min_by_key(|&(distance, _)| distance).filter(|&(distance, _)| distance <= 3).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_no_misspelt_names() {
        assert_eq!(nearest("swapines", ["swappiness", &"s".repeat(1 << 20)].into_iter()), Some("swappiness"));
        let long = "s".repeat(1 << 18);
        assert_eq!(nearest(&long, [&*long].into_iter()), None);
    }
}
