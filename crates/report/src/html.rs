//! A report as one HTML file: no network, no outside fonts or scripts, light and dark, readable without JavaScript and on
//! paper.

use crate::chart::Chart;
use crate::chart_scene::hover_points;
use crate::heatmap::Heatmap;
use crate::heatmap_pair::HeatmapPair;
use crate::scene::PictureSize;
use crate::svg::{escape, style_sheet};
use crate::table::{Align, Table};

/// A page under construction: blocks in reading order. All text is escaped.
#[derive(Clone, Debug, Default)]
pub struct HtmlPage {
    title: String,
    lead: String,
    body: String,
    footer: Vec<String>,
    in_section: bool,
}

/// The answer at the top of a report.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// One sentence: what to do.
    pub headline: String,
    /// Why, and what it costs; one paragraph each.
    pub text: Vec<String>,
    /// The few numbers that matter: name, value.
    pub facts: Vec<(String, String)>,
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
        if !verdict.facts.is_empty() {
            self.body += "<dl class=\"facts\">\n";
            for (name, value) in &verdict.facts {
                self.body += &format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value));
            }
            self.body += "</dl>\n";
        }
        self.body += "</section>\n";
        self
    }

    /// Begins a section with a heading (may be empty); what follows belongs to it.
    pub fn section(&mut self, heading: &str) -> &mut Self {
        self.end_section();
        self.body += "<section>\n";
        if !heading.is_empty() {
            self.body += &format!("<h2>{}</h2>\n", escape(heading));
        }
        self.in_section = true;
        self
    }

    /// A paragraph. Words between backticks are set as code.
    pub fn paragraph(&mut self, text: &str) -> &mut Self {
        self.body += &format!("<p>{}</p>\n", inline(text));
        self
    }

    /// A table; its highlighted row is marked.
    pub fn table(&mut self, table: &Table) -> &mut Self {
        self.body += &table_element(table);
        self
    }

    /// A chart with read-outs under the pointer.
    pub fn chart(&mut self, chart: &Chart, size: PictureSize) -> &mut Self {
        let points: Vec<serde_json::Value> = hover_points(chart, size)
            .into_iter()
            .map(|(x, y, label)| serde_json::json!([(x * 10.0).round() / 10.0, (y * 10.0).round() / 10.0, label]))
            .collect();
        let points = escape(&serde_json::Value::from(points).to_string());
        self.figure(&chart.picture(size).to_inline_svg(), &format!(" data-points=\"{points}\""))
    }

    pub fn heatmap(&mut self, heatmap: &Heatmap, size: PictureSize) -> &mut Self {
        self.figure(&heatmap.picture(size).to_inline_svg(), "")
    }

    /// Two heatmaps side by side.
    pub fn heatmap_pair(&mut self, pair: &HeatmapPair, size: PictureSize) -> &mut Self {
        self.figure(&pair.picture(size).to_inline_svg(), "")
    }

    /// A list of remarks: what a reader must know before trusting the numbers.
    pub fn notes(&mut self, heading: &str, notes: &[String]) -> &mut Self {
        self.end_section();
        let items: String = notes.iter().map(|note| format!("<li>{}</li>\n", inline(note))).collect();
        self.body +=
            &format!("<section class=\"notes\">\n<h2>{}</h2>\n<ul>\n{items}</ul>\n</section>\n", escape(heading));
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
        page.end_section();
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
             <title>{title}</title>\n<style>{STYLE}{pictures}</style>\n</head>\n<body>\n<main>\n\
             <header>\n{MARK}<div><h1>{title}</h1>\n{lead}</div></header>\n{body}</main>\n\
             <footer>\n{footer}</footer>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
            title = escape(&page.title),
            pictures = style_sheet(),
            body = page.body,
        )
    }

    fn figure(&mut self, svg: &str, attributes: &str) -> &mut Self {
        self.body += &format!("<figure{attributes}>\n{svg}</figure>\n");
        self
    }

    fn end_section(&mut self) {
        if std::mem::take(&mut self.in_section) {
            self.body += "</section>\n";
        }
    }
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
            let (open, close) = if is_heading { ("th scope=\"col\"", "th") } else { ("td", "td") };
            out += &format!("<{open}{align}>{}</{close}>", escape(cell));
        }
        out += if is_heading { "</tr>\n</thead>\n" } else { "</tr>\n" };
    }
    out + if table.rows.is_empty() { "</table>\n</div>\n" } else { "</tbody>\n</table>\n</div>\n" }
}

/// Lines of equal temperature.
const MARK: &str = "<svg class=\"mark\" viewBox=\"0 0 48 48\" width=\"44\" height=\"44\" aria-hidden=\"true\">\
<rect width=\"48\" height=\"48\" rx=\"11\" fill=\"#171921\"/>\
<g fill=\"none\" stroke-width=\"3\" stroke-linecap=\"round\">\
<path d=\"M7 33c8-2 9-10 17-10s9 6 17 2\" stroke=\"#932667\"/>\
<path d=\"M7 24c8-2 9-10 17-10s9 6 17 2\" stroke=\"#f37819\"/>\
<path d=\"M7 41c8-2 9-9 17-9s9 6 17 2\" stroke=\"#6a176e\"/>\
<path d=\"M12 14c5-2 7-6 12-6s7 4 12 2\" stroke=\"#f6d746\"/></g></svg>";

const STYLE: &str = "\
:root{--bg:#f4f5f7;--card:#fff;--ink:#1c2028;--muted:#5a6270;--line:#e1e4e9;--accent:#b3430a;--soft:#fdf3ea;--good:#00694d;--goodsoft:#e9f6f1}
@media (prefers-color-scheme:dark){:root{--bg:#0b0d11;--card:#12141a;--ink:#e8eaee;--muted:#a2aab8;--line:#2a2e38;--accent:#f59356;--soft:#22190f;--good:#5fd6ae;--goodsoft:#10241d}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
main,footer{max-width:1060px;margin:0 auto;padding:28px 20px}
header{display:flex;gap:16px;align-items:center;margin-bottom:22px}
header .mark{flex:none}
h1{font-size:1.6rem;line-height:1.2;margin:0;overflow-wrap:anywhere}
.lead{margin:4px 0 0;color:var(--muted);overflow-wrap:anywhere}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:20px 24px;margin:0 0 20px}
h2{font-size:1.12rem;margin:0 0 10px}
p{margin:0 0 10px;max-width:75ch}
.verdict{border-left:5px solid var(--good)}
.verdict h2{font-size:1.35rem}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:16px 0 0}
.facts div{background:var(--goodsoft);border-radius:9px;padding:10px 14px}
.facts dt{font-size:.8rem;color:var(--muted)}
.facts dd{margin:0;font-size:1.3rem;font-weight:600;font-variant-numeric:tabular-nums}
figure{margin:8px -8px;position:relative;overflow-x:auto;overflow-y:hidden}
figure svg.pic{max-width:100%;min-width:600px;height:auto;display:block}
.scroll{overflow-x:auto;margin:8px 0 14px}
table{border-collapse:collapse;width:100%;font-size:.92rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--muted);padding:0 0 6px}
th{font-weight:600;color:var(--muted);text-align:left;border-bottom:2px solid var(--line);vertical-align:bottom}
th,td{padding:6px 10px}
td{border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{padding-left:8px}
.number{text-align:right}
tbody tr:hover td{background:var(--soft)}
tr.chosen td{background:var(--goodsoft);font-weight:600}
tr.chosen td:first-child{box-shadow:inset 3px 0 var(--good)}
.notes{background:none}
.notes li{margin:0 0 6px;max-width:80ch}
ul{margin:0;padding-left:22px}
pre{background:var(--bg);border:1px solid var(--line);border-radius:9px;padding:12px 14px;overflow-x:auto;font:13.5px/1.5 ui-monospace,SFMono-Regular,Menlo,'DejaVu Sans Mono',monospace}
p code,li code{background:var(--bg);border-radius:4px;padding:1px 5px;font:.88em ui-monospace,SFMono-Regular,Menlo,'DejaVu Sans Mono',monospace}
footer{color:var(--muted);font-size:.85rem;padding-top:0;overflow-wrap:anywhere}
footer p{margin:0 0 2px;max-width:none}
.tip{position:absolute;pointer-events:none;background:var(--ink);color:var(--card);font-size:.82rem;padding:4px 9px;border-radius:6px;white-space:nowrap;transform:translate(-50%,-145%)}
.dot{position:absolute;pointer-events:none;width:11px;height:11px;margin:-5.5px 0 0 -5.5px;border:2.5px solid var(--ink);border-radius:50%}
@media print{body{background:#fff}section{break-inside:avoid}}
";

/// Shows the nearest point of a chart under the pointer. The page is complete without it.
const SCRIPT: &str = "\
for(const figure of document.querySelectorAll('figure[data-points]')){
const points=JSON.parse(figure.dataset.points),svg=figure.querySelector('svg');
if(!points.length)continue;
const tip=document.createElement('div'),dot=document.createElement('div');
tip.className='tip';dot.className='dot';
const hide=()=>{tip.remove();dot.remove()};
svg.addEventListener('pointermove',event=>{
const box=svg.getBoundingClientRect(),scale=box.width/svg.viewBox.baseVal.width;
const x=(event.clientX-box.left)/scale,y=(event.clientY-box.top)/scale;
let best=null,least=3600;
for(const point of points){const d=(point[0]-x)**2+(point[1]-y)**2;if(d<least){least=d;best=point}}
if(!best)return hide();
const edge=figure.getBoundingClientRect();
const left=best[0]*scale+box.left-edge.left+figure.scrollLeft,top=best[1]*scale+box.top-edge.top;
tip.textContent=best[2];
figure.append(dot,tip);
dot.style.left=left+'px';dot.style.top=top+'px';
tip.style.top=top+'px';
const half=tip.offsetWidth/2;
tip.style.left=Math.min(Math.max(left,half),figure.scrollWidth-half)+'px';
});
svg.addEventListener('pointerleave',hide);
}
";

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
        });
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

    /// Every element is closed in order, every attribute quoted, nothing stands bare; returns the element names.
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
