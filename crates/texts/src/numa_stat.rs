//! `memory.numa_stat` of a cgroup: bytes by kind and node.

use crate::Strange;

/// Bytes of one kind (`anon`, `file`), by node number.
pub type KindByNode = (String, Vec<(u32, u64)>);

/// Parses lines of `anon N0=4096 N1=0`.
///
/// # Errors
/// The line of another form.
pub fn parse(text: &str) -> Result<Vec<KindByNode>, Strange> {
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let cell = |word: &str| {
            let (node, bytes) = word.strip_prefix('N')?.split_once('=')?;
            Some((node.parse().ok()?, bytes.parse().ok()?))
        };
        Some((name, words.map(cell).collect::<Option<Vec<_>>>()?))
    };
    let rows = text.lines().filter(|line| !line.trim().is_empty());
    rows.map(|line| row(line).ok_or_else(|| Strange::new(line))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_by_node() {
        let rows = parse("anon N0=4096 N1=0\nfile N0=1\n").unwrap();
        assert_eq!(rows, [("anon".to_owned(), vec![(0, 4096), (1, 0)]), ("file".to_owned(), vec![(0, 1)])]);
        assert_eq!(parse("anon M0=1").unwrap_err().to_string(), "`anon M0=1`");
    }
}
