//! The reference of configuration keys, made from the sources: the fields that serde reads, with their doc comments.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use syn::{Attribute, Expr, Fields, Item, ItemEnum, ItemStruct, Lit, Meta, Type, UseTree};

use crate::{Findings, workspace};

const PAGE: &str = "docs/keys.md";
const BEGIN: &str = "<!-- keys: made by cargo xtask bless keys -->\n";
/// Crates whose types a configuration holds.
const CRATES: [&str; 7] = ["scenario", "daemon", "sim", "kernel", "core", "workload", "units"];

/// Writes the page.
pub(crate) fn run() -> Findings {
    let root = workspace::root();
    match page(&root) {
        Ok((head, _, made)) => std::fs::write(root.join(PAGE), head + BEGIN + &made)
            .map_or_else(|error| vec![format!("{PAGE}: {error}")], |()| Vec::new()),
        Err(finding) => vec![finding],
    }
}

/// The text of the page above the tables, its tables, and the expected tables.
fn page(root: &Path) -> Result<(String, String, String), String> {
    let text = std::fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let (head, old) = text.split_once(BEGIN).ok_or(format!("{PAGE}: the line before the tables is missing"))?;
    let sources = Sources::read(root)?;
    let made = ["scenario::Scenario", "daemon::Config"].map(|name| sources.reference(name)).concat();
    Ok((head.to_owned(), old.to_owned(), made))
}

enum Shape {
    Table(ItemStruct),
    Choice(ItemEnum),
}

struct Known {
    krate: &'static str,
    file: usize,
    shape: Shape,
}

struct Sources {
    /// Types by their name; several crates may have the same.
    types: BTreeMap<String, Vec<Known>>,
    /// By file: names that it takes from another crate of ours, with that crate.
    uses: Vec<BTreeMap<String, &'static str>>,
}

impl Sources {
    fn read(root: &Path) -> Result<Self, String> {
        let mut sources = Self { types: BTreeMap::new(), uses: Vec::new() };
        for krate in CRATES {
            let mut open = vec![root.join("crates").join(krate).join("src")];
            while let Some(path) = open.pop() {
                if path.is_dir() {
                    let entries = std::fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                    let mut paths: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
                    paths.sort_by(|a, b| b.cmp(a));
                    open.extend(paths);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text =
                        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                    if text.contains("Deserialize") {
                        sources.add(krate, &text).map_err(|error| format!("{}: {error}", path.display()))?;
                    }
                }
            }
        }
        Ok(sources)
    }

    fn add(&mut self, krate: &'static str, text: &str) -> Result<(), String> {
        let file = syn::parse_file(text).map_err(|error| error.to_string())?;
        let (number, mut uses) = (self.uses.len(), BTreeMap::new());
        for item in file.items {
            let (name, shape) = match item {
                Item::Use(one) => {
                    used(&one.tree, None, &mut uses);
                    continue;
                }
                Item::Struct(one) if is_read(&one.attrs) => (one.ident.to_string(), Shape::Table(one)),
                Item::Enum(one) if is_read(&one.attrs) => (one.ident.to_string(), Shape::Choice(one)),
                _ => continue,
            };
            self.types.entry(name).or_default().push(Known { krate, file: number, shape });
        }
        self.uses.push(uses);
        Ok(())
    }

    fn find(&self, name: &str, file: usize, krate: &str) -> Option<&Known> {
        let all = self.types.get(name)?;
        let taken = self.uses.get(file).and_then(|uses| uses.get(name));
        let from = |krate: &str| all.iter().find(|known| known.krate == krate);
        all.iter()
            .find(|known| known.file == file)
            .or_else(|| taken.and_then(|krate| from(krate)))
            .or_else(|| from(krate))
    }

    /// A section for a root and for all types in it, in the order in which they are found.
    fn reference(&self, root: &str) -> String {
        let (krate, name) = root.split_once("::").unwrap_or(("", root));
        let Some(first) = self.types.get(name).and_then(|all| all.iter().find(|known| known.krate == krate)) else {
            return String::new();
        };
        let title = if krate == "daemon" { "Live configurations" } else { "Scenarios" };
        let mut out = format!("\n## {title}\n");
        let (mut open, mut seen) = (vec![("the file".to_owned(), first)], BTreeSet::new());
        while !open.is_empty() {
            let (place, known) = open.remove(0);
            if !seen.insert((known.file, std::ptr::from_ref(&known.shape) as usize)) {
                continue;
            }
            let mut met = Vec::new();
            self.section(&place, known, &mut out, &mut met);
            open.splice(0..0, met);
        }
        out
    }

    fn section<'a>(&'a self, place: &str, known: &'a Known, out: &mut String, met: &mut Vec<(String, &'a Known)>) {
        match &known.shape {
            Shape::Table(item) => {
                let mut rows = String::new();
                self.rows(place, item, known, &mut rows, met);
                if !rows.is_empty() {
                    let _ = write!(
                        out,
                        "\n### {place}\n\n{}\n\n| key | value | meaning |\n|---|---|---|\n{rows}",
                        filled(&words(&item.attrs))
                    );
                }
            }
            Shape::Choice(item) => {
                let rule = rule(&item.attrs, "rename_all");
                let mut rows = String::new();
                for variant in item.variants.iter().filter(|variant| !is_skipped(&variant.attrs)) {
                    let key = renamed(&variant.attrs, &variant.ident.to_string(), rule.as_deref(), true);
                    let value = match &variant.fields {
                        Fields::Unit => String::new(),
                        Fields::Unnamed(fields) => {
                            let inside: Vec<String> = fields
                                .unnamed
                                .iter()
                                .map(|field| self.value(place, &key, &field.ty, known, met))
                                .collect();
                            inside.join(", ")
                        }
                        Fields::Named(fields) => {
                            let rule = rule_of(&variant.attrs).or_else(|| self::rule(&item.attrs, "rename_all_fields"));
                            let one = |field: &syn::Field| {
                                let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
                                format!("`{}`", renamed(&field.attrs, &name, rule.as_deref(), false))
                            };
                            format!("{{ {} }}", fields.named.iter().map(one).collect::<Vec<_>>().join(", "))
                        }
                    };
                    let _ = writeln!(rows, "| `{key}` | {value} | {} |", in_cell(&words(&variant.attrs)));
                }
                let _ = write!(
                    out,
                    "\n### {place}\n\n{}\n\n| one of | with | meaning |\n|---|---|---|\n{rows}",
                    filled(&words(&item.attrs))
                );
            }
        }
    }

    fn rows<'a>(
        &'a self,
        place: &str,
        item: &'a ItemStruct,
        known: &'a Known,
        out: &mut String,
        met: &mut Vec<(String, &'a Known)>,
    ) {
        let rule = rule(&item.attrs, "rename_all");
        for field in &item.fields {
            let Some(name) = field.ident.as_ref().map(ToString::to_string) else { continue };
            if is_skipped(&field.attrs) {
                continue;
            }
            if serde_words(&field.attrs).iter().any(|word| word == "flatten") {
                // Its keys are listed here as well.
                if let Some(inner) = self.named(&field.ty, known).filter(|inner| !std::ptr::eq(*inner, known)) {
                    match &inner.shape {
                        Shape::Table(item) => self.rows(place, item, inner, out, met),
                        Shape::Choice(_) => met.push((format!("{place}, one of"), inner)),
                    }
                }
                continue;
            }
            let key = renamed(&field.attrs, &name, rule.as_deref(), false);
            let value = self.value(place, &key, &field.ty, known, met);
            let own = words(&field.attrs);
            let meaning = match self.named(&field.ty, known).map(|known| &known.shape) {
                Some(Shape::Table(item)) if own.is_empty() => words(&item.attrs),
                _ => own,
            };
            let _ = writeln!(out, "| `{key}` | {value} | {} |", in_cell(&meaning));
        }
    }

    /// The type of a table of ours that a type names, through `Option`, `Vec` and `Box`.
    fn named(&self, ty: &Type, known: &Known) -> Option<&Known> {
        let (name, inner) = parts(ty)?;
        match inner.first() {
            Some(inner) if ["Option", "Vec", "Box"].contains(&name.as_str()) => self.named(inner, known),
            _ => self.find(&name, known.file, known.krate),
        }
    }

    /// The allowed values of a key, as text.
    fn value<'a>(
        &'a self,
        place: &str,
        key: &str,
        ty: &Type,
        known: &'a Known,
        met: &mut Vec<(String, &'a Known)>,
    ) -> String {
        let Some((name, inner)) = parts(ty) else { return "a list".to_owned() };
        let below = |many: bool| {
            let path = if place == "the file" { key.to_owned() } else { format!("{place}.{key}") };
            if many { format!("{path}[]") } else { path }
        };
        match (name.as_str(), inner.first()) {
            ("Option" | "Box", Some(inner)) => self.value(place, key, inner, known, met),
            ("Vec" | "BTreeSet", Some(inner)) => {
                let of = self.value(place, &format!("{key}[]"), inner, known, met);
                of.strip_prefix("see ").map_or_else(|| format!("list of {of}"), |place| format!("list, see {place}"))
            }
            ("BTreeMap", Some(_)) => match inner.get(1) {
                Some(inner) => format!("table of {}", self.value(place, &format!("{key}.NAME"), inner, known, met)),
                None => "table".to_owned(),
            },
            ("String" | "PathBuf" | "Pattern", _) => "text".to_owned(),
            ("bool", _) => "`true` or `false`".to_owned(),
            ("u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64", _) => "whole number".to_owned(),
            ("f64", _) => "number".to_owned(),
            ("Duration", _) => "time, such as `\"5s\"`".to_owned(),
            ("Bytes", _) => "size, such as `\"64MiB\"`".to_owned(),
            ("Amount", _) => "size or share, such as `\"64MiB\"`, `\"50%\"`".to_owned(),
            ("Ratio", _) => "share, such as `\"5%\"`".to_owned(),
            _ => match self.find(&name, known.file, known.krate) {
                Some(found) => {
                    let path = below(false);
                    met.push((path.clone(), found));
                    format!("see `{path}`")
                }
                None => format!("text: {}", spaced(&name)),
            },
        }
    }
}

/// The last name of a path, and the types between its brackets.
fn parts(ty: &Type) -> Option<(String, Vec<Type>)> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let inner = match &last.arguments {
        syn::PathArguments::AngleBracketed(inside) => inside
            .args
            .iter()
            .filter_map(|argument| if let syn::GenericArgument::Type(ty) = argument { Some(ty.clone()) } else { None })
            .collect(),
        _ => Vec::new(),
    };
    Some((last.ident.to_string(), inner))
}

/// Names that come from crates of ours.
fn used(tree: &UseTree, from: Option<&'static str>, uses: &mut BTreeMap<String, &'static str>) {
    match tree {
        UseTree::Path(path) => {
            let name = path.ident.to_string();
            let krate = name.strip_prefix("isotherm_").and_then(|name| CRATES.into_iter().find(|krate| *krate == name));
            used(&path.tree, from.or(krate), uses);
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| used(tree, from, uses)),
        UseTree::Name(name) => {
            if let Some(krate) = from {
                uses.insert(name.ident.to_string(), krate);
            }
        }
        UseTree::Rename(_) | UseTree::Glob(_) => {}
    }
}

fn is_read(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("derive")
            && matches!(&attribute.meta, Meta::List(list) if list.tokens.to_string().contains("Deserialize"))
    })
}

/// The parts of all `#[serde(…)]`, without blanks.
fn serde_words(attributes: &[Attribute]) -> Vec<String> {
    let lists = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::List(list) if attribute.path().is_ident("serde") => Some(list.tokens.to_string()),
        _ => None,
    });
    lists.flat_map(|text| text.split(',').map(|word| word.replace(' ', "")).collect::<Vec<_>>()).collect()
}

/// The value of `key =` there.
fn rule(attributes: &[Attribute], key: &str) -> Option<String> {
    let begin = format!("{key}=");
    serde_words(attributes).into_iter().find_map(|word| Some(word.strip_prefix(&begin)?.trim_matches('"').to_owned()))
}

fn rule_of(attributes: &[Attribute]) -> Option<String> {
    rule(attributes, "rename_all")
}

fn is_skipped(attributes: &[Attribute]) -> bool {
    serde_words(attributes).iter().any(|word| word == "skip" || word == "skip_deserializing")
}

/// A name as it is written in a file.
fn renamed(attributes: &[Attribute], name: &str, rule: Option<&str>, is_variant: bool) -> String {
    if let Some(own) = self::rule(attributes, "rename") {
        return own;
    }
    let name = name.trim_start_matches("r#");
    let snake = if is_variant { spaced(name).replace(' ', "_") } else { name.to_owned() };
    match rule {
        Some("kebab-case") => snake.replace('_', "-"),
        Some("snake_case") => snake,
        Some("lowercase") => name.to_lowercase(),
        _ if is_variant => name.to_owned(),
        _ => snake,
    }
}

/// `MemoryHigh` as `memory high`.
fn spaced(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push(' ');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

/// The doc comment of an item, with links to code as code.
fn words(attributes: &[Attribute]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let Meta::NameValue(value) = &attribute.meta else { continue };
        let Expr::Lit(literal) = &value.value else { continue };
        let Lit::Str(text) = &literal.lit else { continue };
        lines.push(text.value().trim().to_owned());
    }
    // [`Name`](path) and [`Name`] name code, which is not on the page.
    let (text, mut out) = (lines.join(" ").trim().to_owned(), String::new());
    let mut rest = text.as_str();
    while let Some(at) = rest.find("[`") {
        let (before, from) = rest.split_at(at);
        let Some(end) = from.find("`]") else { break };
        out += before;
        out += &from[1..=end];
        rest = &from[end + 2..];
        if rest.starts_with('(') {
            rest = rest.split_once(')').map_or("", |(_, after)| after);
        }
    }
    out + rest
}

/// A paragraph wrapped as on the pages.
fn filled(text: &str) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in text.split_whitespace() {
        let wide = word.chars().count();
        if column > 0 && column + 1 + wide > 138 {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += wide;
    }
    out
}

fn in_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
        use isotherm_core::limits::Size;
        /// The file.
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub struct Scenario {
            /// How often; see [`Other`](crate::Other) | 1 and more.
            nr_runs: u32,
            #[serde(skip)]
            hidden: bool,
            size: Option<Size>,
            #[serde(default, rename = "kind")]
            what: Vec<Kind>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        enum Kind { /// Nothing.
            NotAtAll, Some(Duration), Many { first_one: u8 } }
        struct Unread { x: u8 }
    "#;
    const OTHER: &str = "/// A size.\n#[derive(Deserialize)] pub struct Size { /// How large.\n bytes: Bytes }";

    #[test]
    fn the_page_is_what_the_sources_say() {
        let (_, old, made) = page(&workspace::root()).unwrap();
        assert!(old == made, "`cargo xtask bless keys` writes {PAGE} anew");
        assert!(made.lines().count() > 1000);
    }

    #[test]
    fn keys_come_with_their_values_and_words() {
        let mut sources = Sources { types: BTreeMap::new(), uses: Vec::new() };
        sources.add("scenario", SOURCE).unwrap();
        sources.add("core", OTHER).unwrap();
        let made = sources.reference("scenario::Scenario");
        for line in [
            "| `nr-runs` | whole number | How often; see `Other` \\| 1 and more. |",
            "| `size` | see `size` | A size. |",
            "| `kind` | list, see `kind[]` |  |",
            "| `bytes` | size, such as `\"64MiB\"` | How large. |",
            "| `not-at-all` |  | Nothing. |",
            "| `some` | time, such as `\"5s\"` |  |",
            "| `many` | { `first_one` } |  |",
        ] {
            assert!(made.contains(line), "{line}\n{made}");
        }
        assert!(!made.contains("hidden") && !made.contains("Unread"), "{made}");
        assert!(sources.add("core", "fn (").is_err());
    }
}
