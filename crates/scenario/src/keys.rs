//! Setting keys of a document by their path, as sweeps do.

use isotherm_document::{KeyPath, PathSegment};
use toml::{Table, Value};

/// Sets the key at `path` (`machine.swappiness`, `workloads[0].load.path`) to `value`. Missing tables on the way are made; entries of lists
/// must exist, or follow the last. Keys are spelt with `-`; spellings with `_` mean the same.
///
/// Does not check whether the key is known: [`parse`](crate::parse()) does.
///
/// # Errors
/// A message: a step that leads nowhere.
pub fn set_key(document: &mut Table, path: &str, value: Value) -> Result<(), String> {
    let path = KeyPath::from(path.replace('_', "-"));
    let Some((last, way)) = path.steps().split_last() else { return Err("an empty path".to_owned()) };
    let mut whole = Value::Table(std::mem::take(document));
    let mut at = Ok(&mut whole);
    let mut walked = KeyPath::root();
    for step in way {
        at = at.and_then(|place| enter(place, step, &walked));
        walked = walked.step(step.clone());
    }
    let set = at.and_then(|place| put(place, last, value, &walked));
    if let Value::Table(table) = whole {
        *document = table;
    }
    set
}

fn enter<'v>(place: &'v mut Value, step: &PathSegment, walked: &KeyPath) -> Result<&'v mut Value, String> {
    match step {
        PathSegment::Key(key) if place.is_table() => {
            let table = place.as_table_mut().expect("it is one");
            Ok(table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new())))
        }
        PathSegment::At(index) if place.as_array().is_some_and(|list| *index < list.len()) => Ok(&mut place[*index]),
        _ => Err(no_way(place, step, walked)),
    }
}

fn put(place: &mut Value, step: &PathSegment, value: Value, walked: &KeyPath) -> Result<(), String> {
    match (&mut *place, step) {
        (Value::Table(table), PathSegment::Key(key)) => {
            table.insert(key.clone(), value);
        }
        (Value::Array(list), PathSegment::At(index)) if *index < list.len() => list[*index] = value,
        (Value::Array(list), PathSegment::At(index)) if *index == list.len() => list.push(value),
        _ => return Err(no_way(place, step, walked)),
    }
    Ok(())
}

fn no_way(place: &Value, step: &PathSegment, walked: &KeyPath) -> String {
    match (place, step) {
        (Value::Array(list), PathSegment::At(index)) => {
            format!("`{walked}[{index}]` is not there: `{walked}` has {} entries, counted from 0", list.len())
        }
        (Value::Array(_), PathSegment::Key(key)) => {
            format!("`{walked}` is a list: name an entry, as in `{walked}[0].{key}`")
        }
        (Value::Table(_), PathSegment::At(index)) => format!("`{walked}` is a table: it has no entry [{index}]"),
        (place, _) => format!("`{walked}` is a {}: nothing is in it", place.type_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Table {
        "policy = 'classic'\n[[workloads]]\nname = 'a'\nload = { kind = 'scan', path = 'x' }\n[machine]\ncpus = 2"
            .parse()
            .unwrap()
    }

    #[test]
    fn keys_are_set_wherever_they_stand() {
        let mut set = document();
        for (path, value) in [
            ("policy", Value::from("mglru")),
            ("machine.swap.device", Value::from("ssd")),
            ("machine.disk_latency", Value::from(3)),
            ("workloads[0].load.path", Value::from("y")),
            ("variants", Value::Array(Vec::new())),
            ("variants[0]", Value::Table(Table::new())),
            ("variants[0].name", Value::from("v")),
        ] {
            set_key(&mut set, path, value).unwrap();
        }
        let expected: Table = "policy = 'mglru'\nvariants = [{ name = 'v' }]\n[[workloads]]\nname = 'a'\n\
            load = { kind = 'scan', path = 'y' }\n[machine]\ncpus = 2\ndisk-latency = 3\nswap = { device = 'ssd' }"
            .parse()
            .unwrap();
        assert_eq!(set, expected);
    }

    #[test]
    fn ways_that_lead_nowhere_are_told_and_change_nothing() {
        for (path, why) in [
            ("workloads[1].name", "`workloads[1]` is not there: `workloads` has 1 entries, counted from 0"),
            ("workloads[2]", "`workloads[2]` is not there"),
            ("workloads.name", "`workloads` is a list: name an entry, as in `workloads[0].name`"),
            ("machine[0]", "`machine` is a table: it has no entry [0]"),
            ("policy.name", "`policy` is a string: nothing is in it"),
        ] {
            let mut same = document();
            let message = set_key(&mut same, path, Value::from(1)).unwrap_err();
            assert!(message.starts_with(why), "{message}");
            assert_eq!(same, document());
        }
    }
}
