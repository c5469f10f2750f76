//! Path of a key in a document: `machine.swappiness`, `variants[2].patch.limit`.

use std::fmt;

/// One step from a table or list to one of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSegment {
    /// The step to the value of a key.
    Key(String),
    /// The step to an entry, from 0.
    At(usize),
}

/// The steps from the root of a document to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPath(Vec<PathSegment>);

impl KeyPath {
    /// The document itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// Extended by a key, also one with dots or brackets.
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        self.step(PathSegment::Key(key.to_owned()))
    }

    /// Extended by an entry of a list.
    #[must_use]
    pub fn at(self, index: usize) -> Self {
        self.step(PathSegment::At(index))
    }

    /// Extended by one step.
    #[must_use]
    pub fn step(mut self, step: PathSegment) -> Self {
        self.0.push(step);
        self
    }

    /// Extended by `path`.
    #[must_use]
    pub fn join(mut self, path: impl Into<Self>) -> Self {
        self.0.extend(path.into().0);
        self
    }

    /// Steps from the root on.
    pub fn steps(&self) -> &[PathSegment] {
        &self.0
    }
}

/// Parses paths in errors of other crates: `nodes[0].memory`. Keys that hold dots or brackets need [`KeyPath::key`].
impl From<&str> for KeyPath {
    fn from(text: &str) -> Self {
        let mut path = Self::root();
        for part in text.split('.') {
            let (key, indices) = part.split_once('[').unwrap_or((part, ""));
            path = path.key(key);
            let indices = indices.split(['[', ']']).filter_map(|index| index.parse().ok());
            path = indices.fold(path, Self::at);
        }
        path
    }
}

impl From<String> for KeyPath {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, step) in self.0.iter().enumerate() {
            match step {
                PathSegment::Key(key) if nth == 0 => f.write_str(key)?,
                PathSegment::Key(key) => write!(f, ".{key}")?,
                PathSegment::At(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_and_written() {
        for text in ["machine.swappiness", "nodes[0].memory", "distances[0][12]", "variants[2].generations[0].mode"] {
            assert_eq!(KeyPath::from(text).to_string(), text);
        }
        let joined = KeyPath::from("monitors").at(1).join("config.leaks");
        assert_eq!(joined, KeyPath::from("monitors[1].config.leaks"));
        let nothing = ["", ".", "[", "]", "a[", "a[x]", "a[99999999999999999999]"].map(KeyPath::from);
        assert!(nothing.iter().all(|path| path.steps().iter().all(|step| matches!(step, PathSegment::Key(_)))));
    }
}
