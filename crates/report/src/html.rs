//! A report as one HTML file: no network, no outside fonts or scripts, light and dark, readable without JavaScript and on
//! paper.

use crate::chart::Chart;
use crate::chart_live;
use crate::chart_scene::hover_points;
use crate::contents::Contents;
use crate::heatmap::Heatmap;
use crate::heatmap_live;
use crate::heatmap_pair::HeatmapPair;
use crate::scene::PictureSize;
use crate::svg::{escape, series_variables, style_sheet};
use crate::table::{Align, Cell, Table};

/// A page under construction: blocks in reading order. All text is escaped.
#[derive(Clone, Debug, Default)]
pub struct HtmlPage {
    title: String,
    lead: String,
    body: String,
    footer: Vec<String>,
    contents: Contents,
    section: Section,
    in_leaf: bool,
    has_charts: bool,
}

/// The section that later blocks belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Section {
    #[default]
    None,
    Plain,
    Folded,
}

/// The answer at the top of a report.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The recommendation in one sentence.
    pub headline: String,
    /// Reasons and costs; one paragraph each.
    pub text: Vec<String>,
    /// Lines to copy, each with its effect.
    pub steps: Vec<(String, String)>,
    /// The most important numbers: name, value.
    pub facts: Vec<(String, String)>,
    /// Where the answer comes from, in small print: name, value.
    pub origin: Vec<(String, String)>,
}

impl HtmlPage {
    /// A page with a heading and one line under it (may be empty).
    pub fn new(title: impl Into<String>, lead: impl Into<String>) -> Self {
        Self { title: title.into(), lead: lead.into(), ..Self::default() }
    }

    /// The box with the answer.
    pub fn verdict(&mut self, verdict: &Verdict) -> &mut Self {
        self.end_section();
        self.body += "<section class=\"verdict\">\n";
        self.body += &format!("<h2>{}</h2>\n", escape(&verdict.headline));
        for paragraph in &verdict.text {
            self.body += &format!("<p>{}</p>\n", inline(paragraph));
        }
        self.body += &steps(&verdict.steps);
        self.body += &pairs("facts", &verdict.facts);
        self.body += &pairs("origin", &verdict.origin);
        self.body += "</section>\n";
        self
    }

    /// Links to all sections of the page, also to those before this place.
    pub fn contents(&mut self) -> &mut Self {
        self.end_section();
        self.contents.put_at(self.body.len());
        self
    }

    /// Links to the pages that follow: the name of each and where it is, as [`page`](Self::page) takes them. With scripts one of them is
    /// seen at a time.
    pub fn pages(&mut self, names: &[(String, String)]) -> &mut Self {
        self.end_section();
        self.body += "<nav class=\"pages\" aria-label=\"pages\">\n";
        for (id, name) in names {
            self.body += &format!("<a href=\"#{}\">{}</a>\n", escape(id), escape(name));
        }
        self.body += "</nav>\n";
        self
    }

    /// Begins a page of its own, which ends where the next one begins or at [`end_page`](Self::end_page).
    pub fn page(&mut self, id: &str, name: &str) -> &mut Self {
        self.end_page();
        self.in_leaf = true;
        self.body += &format!("<div class=\"leaf\" id=\"{}\">\n<h2>{}</h2>\n", escape(id), escape(name));
        self
    }

    /// Later blocks belong to no page.
    pub fn end_page(&mut self) -> &mut Self {
        self.end_section();
        if std::mem::take(&mut self.in_leaf) {
            self.body += "</div>\n";
        }
        self
    }

    /// Begins a section with a heading (may be empty); later blocks belong to it.
    pub fn section(&mut self, heading: &str) -> &mut Self {
        self.end_section();
        self.body += &match heading {
            "" => "<section>\n".to_owned(),
            _ => format!("<section id=\"{}\">\n<h2>{}</h2>\n", self.contents.add(heading), escape(heading)),
        };
        self.section = Section::Plain;
        self
    }

    /// Begins a section of which only the heading and a line on what is inside are seen, until it is unfolded. Paper has all of it.
    pub fn fold(&mut self, heading: &str, inside: &str) -> &mut Self {
        self.end_section();
        // A link to something inside unfolds it, without scripts as well.
        self.body += &format!(
            "<section class=\"fold\">\n<details>\n<summary><h2>{}</h2><span>{}</span></summary>\n<div id=\"{}\">\n",
            escape(heading),
            inline(inside),
            self.contents.add(heading)
        );
        self.section = Section::Folded;
        self
    }

    /// A paragraph. Words between backticks are set as code.
    pub fn paragraph(&mut self, text: &str) -> &mut Self {
        self.body += &format!("<p>{}</p>\n", inline(text));
        self
    }

    /// A paragraph in small print, such as the meaning of words.
    pub fn small_print(&mut self, text: &str) -> &mut Self {
        self.body += &format!("<p class=\"small\">{}</p>\n", inline(text));
        self
    }

    /// A table; its highlighted row is marked.
    pub fn table(&mut self, table: &Table) -> &mut Self {
        self.body += &table_element(table);
        self
    }

    /// A chart: names that switch curves on and off, read-outs with intervals, zoom. Without scripts, and on paper, only its picture is
    /// shown.
    pub fn chart(&mut self, chart: &Chart, size: PictureSize) -> &mut Self {
        let attributes = match chart_live::data(chart) {
            Some(data) => {
                self.has_charts = true;
                format!(" data-chart=\"{}\"", escape(&data.to_string()))
            }
            None => {
                let points: Vec<serde_json::Value> = hover_points(chart, size)
                    .into_iter()
                    .map(|(x, y, label)| {
                        serde_json::json!([(x * 10.0).round() / 10.0, (y * 10.0).round() / 10.0, label])
                    })
                    .collect();
                format!(" data-points=\"{}\"", escape(&serde_json::Value::from(points).to_string()))
            }
        };
        self.figure(&chart.picture(size).to_inline_svg(), &attributes)
    }

    /// A heatmap that can be zoomed into; without scripts, and on paper, its picture.
    pub fn heatmap(&mut self, heatmap: &Heatmap, size: PictureSize) -> &mut Self {
        let data = heatmap_live::data(heatmap);
        let attributes =
            data.map_or_else(String::new, |data| format!(" data-heatmap=\"{}\"", escape(&data.to_string())));
        self.figure(&heatmap.picture(size).to_inline_svg(), &attributes)
    }

    /// Two heatmaps side by side.
    pub fn heatmap_pair(&mut self, pair: &HeatmapPair, size: PictureSize) -> &mut Self {
        self.figure(&pair.picture(size).to_inline_svg(), "")
    }

    /// Sentences, one below the other.
    pub fn list(&mut self, items: &[String]) -> &mut Self {
        let items: String = items.iter().map(|item| format!("<li>{}</li>\n", inline(item))).collect();
        self.body += &format!("<ul>\n{items}</ul>\n");
        self
    }

    /// A list of notes for judging the numbers.
    pub fn notes(&mut self, heading: &str, notes: &[String]) -> &mut Self {
        self.end_section();
        let id = self.contents.add(heading);
        self.body += &format!("<section class=\"notes\" id=\"{id}\">\n<h2>{}</h2>\n", escape(heading));
        self.list(notes);
        self.body += "</section>\n";
        self
    }

    /// Text to be copied as it is: a configuration, a command.
    pub fn code(&mut self, text: &str) -> &mut Self {
        self.body += &format!("<pre><code>{}</code></pre>\n", escape(text));
        self
    }

    /// A line at the foot of the page: version, command, date of the recording.
    pub fn footer(&mut self, line: impl Into<String>) -> &mut Self {
        self.footer.push(line.into());
        self
    }

    /// The finished file.
    pub fn to_html(&self) -> String {
        let mut page = self.clone();
        page.end_page();
        let (chart_style, chart_script) = if page.has_charts { (UPLOT_STYLE, uplot()) } else { ("", String::new()) };
        let lead = if page.lead.is_empty() {
            String::new()
        } else {
            format!("<p class=\"lead\">{}</p>\n", escape(&page.lead))
        };
        let footer: String = page.footer.iter().map(|line| format!("<p>{}</p>\n", escape(line))).collect();
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <meta name=\"color-scheme\" content=\"light dark\"/>\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'; img-src data:\"/>\n\
             <title>{title}</title>\n<style>{variables}{chart_style}{STYLE}{pictures}</style>\n</head>\n<body>\n<main>\n\
             <header>\n{MARK}<div><h1>{title}</h1>\n{lead}</div></header>\n{body}</main>\n\
             <footer>\n{footer}</footer>\n<script>{chart_script}{SCRIPT}</script>\n</body>\n</html>\n",
            title = escape(&page.title),
            variables = series_variables(),
            pictures = style_sheet(),
            body = page.contents.inserted(&page.body),
        )
    }

    fn figure(&mut self, svg: &str, attributes: &str) -> &mut Self {
        self.body += &format!("<figure{attributes}>\n{svg}</figure>\n");
        self
    }

    fn end_section(&mut self) {
        self.body += match std::mem::take(&mut self.section) {
            Section::None => "",
            Section::Plain => "</section>\n",
            Section::Folded => "</div>\n</details>\n</section>\n",
        };
    }
}

/// Names with values; nothing without any.
fn pairs(class: &str, pairs: &[(String, String)]) -> String {
    let pair =
        |(name, value): &(String, String)| format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value));
    let all: String = pairs.iter().map(pair).collect();
    if all.is_empty() { all } else { format!("<dl class=\"{class}\">\n{all}</dl>\n") }
}

/// Lines to copy: a click selects the whole of one.
fn steps(steps: &[(String, String)]) -> String {
    let step = |(line, what): &(String, String)| {
        format!("<li><code>{}</code> <span>{}</span></li>\n", escape(line), escape(what))
    };
    let all: String = steps.iter().map(step).collect();
    if all.is_empty() { all } else { format!("<h3>What to do now, as root</h3>\n<ol class=\"steps\">\n{all}</ol>\n") }
}

/// Escaped text with the words between backticks as code; an odd backtick stays as it is.
fn inline(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let mut out = String::new();
    for (i, part) in parts.iter().enumerate() {
        let is_closed = i + 1 < parts.len();
        match (i % 2 == 1, is_closed) {
            (false, _) => out += &escape(part),
            (true, true) => out += &format!("<code>{}</code>", escape(part)),
            (true, false) => out += &format!("`{}", escape(part)),
        }
    }
    out
}

fn table_element(table: &Table) -> String {
    let mut out = "<div class=\"scroll\">\n<table>\n".to_owned();
    if !table.title.is_empty() {
        out += &format!("<caption>{}</caption>\n", escape(&table.title));
    }
    for (line, cells) in table.shown().iter().enumerate() {
        let is_heading = line == 0;
        let class = if !is_heading && table.highlight == Some(line - 1) { " class=\"chosen\"" } else { "" };
        out += match line {
            0 => "<thead>\n",
            1 => "<tbody>\n",
            _ => "",
        };
        out += &format!("<tr{class}>");
        for (column, cell) in cells.iter().enumerate() {
            let align = if table.columns[column].align == Align::Right { " class=\"number\"" } else { "" };
            let value = if is_heading { String::new() } else { value_attribute(table, line - 1, column) };
            let (open, close) = if is_heading { ("th scope=\"col\"", "th") } else { ("td", "td") };
            out += &format!("<{open}{align}{value}>{}</{close}>", escape(cell));
        }
        out += if is_heading { "</tr>\n</thead>\n" } else { "</tr>\n" };
    }
    out + if table.rows.is_empty() { "</table>\n</div>\n" } else { "</tbody>\n</table>\n</div>\n" }
}

/// Sort key of a cell.
fn value_attribute(table: &Table, row: usize, column: usize) -> String {
    match table.rows.get(row).and_then(|row| row.get(column)) {
        Some(Cell::Int(value)) => format!(" data-value=\"{value}\""),
        Some(Cell::Float(value)) if value.is_finite() => format!(" data-value=\"{value}\""),
        _ => String::new(),
    }
}

/// The chart library with its licence, without its own first line, which holds an address.
fn uplot() -> String {
    let code = UPLOT.split_once('\n').map_or(UPLOT, |(_, code)| code);
    format!("/* uPlot 1.6.32\n{}*/\n{code}\n", include_str!("../vendor/uplot/LICENSE"))
}

const UPLOT: &str = include_str!("../vendor/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../vendor/uplot/uPlot.min.css");

/// Brings figures and tables to life. The page is complete without it.
const SCRIPT: &str = concat!(
    include_str!("page/shared.js"),
    include_str!("page/chart.js"),
    include_str!("page/heatmap.js"),
    include_str!("page/page.js"),
);

/// Lines of equal temperature.
const MARK: &str = "<svg class=\"mark\" viewBox=\"0 0 48 48\" width=\"44\" height=\"44\" aria-hidden=\"true\">\
<rect width=\"48\" height=\"48\" rx=\"11\" fill=\"#171921\"/>\
<g fill=\"none\" stroke-width=\"3\" stroke-linecap=\"round\">\
<path d=\"M7 33c8-2 9-10 17-10s9 6 17 2\" stroke=\"#932667\"/>\
<path d=\"M7 24c8-2 9-10 17-10s9 6 17 2\" stroke=\"#f37819\"/>\
<path d=\"M7 41c8-2 9-9 17-9s9 6 17 2\" stroke=\"#6a176e\"/>\
<path d=\"M12 14c5-2 7-6 12-6s7 4 12 2\" stroke=\"#f6d746\"/></g></svg>";

const STYLE: &str = include_str!("page/style.css");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::tests::{advise_chart, degenerate_charts};
    use crate::heatmap::tests::{degenerate_heatmaps, phases};
    use crate::{Cell, Column, Unit};

    fn report(name: &str) -> HtmlPage {
        let mut table = Table::new(name, vec![Column::text("policy"), Column::number("memory", Unit::Bytes)]);
        table.push(vec![name.into(), Cell::Int(1 << 20)]);
        table.push(vec!["opt".into()]);
        table.highlight = Some(0);
        let mut page = HtmlPage::new(name, name);
        page.verdict(&Verdict {
            headline: name.into(),
            text: vec![name.into()],
            facts: vec![(name.into(), name.into())],
            steps: vec![(name.into(), name.into())],
            origin: vec![(name.into(), name.into())],
        });
        page.contents().fold(name, name).list(&[name.into()]);
        page.section(name).paragraph(name).table(&table).table(&Table::default());
        page.section("charts").chart(&advise_chart(), PictureSize::default());
        page.chart(
            &Chart {
                title: name.into(),
                series: vec![crate::Series::line(name, vec![(1.0, 1.0)])],
                ..Chart::default()
            },
            PictureSize::default(),
        );
        page.heatmap(&Heatmap { title: name.into(), ..phases() }, PictureSize::default()).code(name);
        page.notes(name, &[name.into()]).footer(name);
        page
    }

    /// Every element is closed in order, every attribute is quoted, no text is outside an element; returns the element names.
    fn check_well_formed(html: &str) -> Vec<String> {
        let (mut open, mut seen): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        let mut rest = html.strip_prefix("<!DOCTYPE html>").expect("the document type comes first");
        while let Some(start) = rest.find('<') {
            assert!(!rest[..start].contains('>'), "a bare > before {}", &rest[start..rest.len().min(start + 60)]);
            let end = start + rest[start..].find('>').expect("every < is closed");
            let tag = &rest[start + 1..end];
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            rest = &rest[end + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name));
                continue;
            }
            let name: String = tag.chars().take_while(|c| c.is_alphanumeric()).collect();
            assert!(!name.is_empty(), "<{tag}>");
            seen.push(name.clone());
            if tag.ends_with('/') {
                continue;
            }
            if name == "style" || name == "script" {
                let close = format!("</{name}>");
                let end = rest.find(&close).expect("closed");
                assert!(!rest[..end].contains('<') || name == "script");
                rest = &rest[end + close.len()..];
                continue;
            }
            open.push(name);
        }
        assert!(open.is_empty(), "not closed: {open:?}");
        seen
    }

    #[test]
    fn hostile_names_stay_text() {
        let hostile = "<script>alert('x')</script>\"&\u{1b}]0;";
        let html = report(hostile).to_html();
        let elements = check_well_formed(&html);
        assert_eq!(elements.iter().filter(|name| *name == "script").count(), 1, "ours alone");
        assert!(!html.contains(hostile) && !html.contains('\u{1b}'));
        assert_eq!(elements.iter().filter(|name| *name == "figure").count(), 3);
        assert_eq!(check_well_formed(&report("sqlite3").to_html()), elements, "names do not change the structure");
    }

    #[test]
    fn folded_sections_say_what_is_inside_and_are_linked_to() {
        let mut page = HtmlPage::new("p", "");
        page.contents().section("Every size").paragraph("first");
        page.fold("Every size", "`n` rows").paragraph("second");
        page.notes("To note", &["third".into()]);
        let html = page.to_html();
        check_well_formed(&html);
        let (list, body) = html.split_once("</nav>").expect("a list of contents");
        for (id, heading) in [("every-size", "Every size"), ("every-size-2", "Every size"), ("to-note", "To note")] {
            assert!(list.contains(&format!("<a href=\"#{id}\">{heading}</a>")), "{id}");
            assert_eq!(body.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
        }
        let (summary, inside) = body.split_once("</summary>").expect("a fold");
        assert!(summary.ends_with("<h2>Every size</h2><span><code>n</code> rows</span>"), "{summary}");
        assert!(inside.starts_with("\n<div id=\"every-size-2\">\n<p>second</p>\n</div>\n</details>"), "{inside}");
        assert!(!body.contains("<details open"), "folded until it is asked for");
    }

    #[test]
    fn backticks_mark_code() {
        let table = [
            ("run `a<b` now", "run <code>a&lt;b</code> now"),
            ("``", "<code></code>"),
            ("odd ` one", "odd ` one"),
            ("`a` and `b", "<code>a</code> and `b"),
        ];
        for (text, html) in table {
            assert_eq!(inline(text), html);
        }
    }

    #[test]
    fn nothing_is_fetched() {
        let html = report("sqlite3").to_html();
        for word in ["http://", "https://", "url(", "@import", "src=\"", "<link"] {
            assert!(!html.contains(word), "{word}");
        }
        assert!(html.contains("prefers-color-scheme:dark") && html.contains("data:image/png;base64,"));
    }

    #[test]
    fn degenerate_pictures_keep_the_page_well_formed() {
        let mut page = HtmlPage::default();
        for (name, chart) in degenerate_charts() {
            page.section(name).chart(&chart, PictureSize { width: 300, height: 200 });
        }
        for (name, heatmap) in degenerate_heatmaps() {
            page.section(name).heatmap(&heatmap, PictureSize { width: 300, height: 200 });
        }
        check_well_formed(&page.to_html());
    }
}
