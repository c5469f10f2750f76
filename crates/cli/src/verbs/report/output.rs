//! Output of a picture: the terminal, or files. Shared by all pictures of `isotherm report`.

use std::path::{Path, PathBuf};

use isotherm_report::{Chart, Heatmap, HtmlPage, Picture, PictureSize, Table, TermStyle};
use isotherm_trace::TraceMeta;
use serde::Serialize;

use crate::error::CliError;
use crate::format::Format;
use crate::ui::Ui;
use crate::verbs::Styled;

/// Flattened into the arguments of verbs that draw.
#[derive(Debug, clap::Args)]
pub(super) struct PictureArgs {
    /// Write the picture as SVG; rsvg-convert or a browser makes a PNG of it.
    #[arg(long, value_name = "FILE", value_parser = svg_file)]
    svg: Option<PathBuf>,
    /// Write a page with picture and numbers as one HTML file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Width: columns in the terminal, pixels in files [default: the terminal's; 960].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    width: Option<u32>,
    /// Height: lines in the terminal, pixels in files.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    height: Option<u32>,
}

impl PictureArgs {
    /// `--width`.
    pub(super) fn width(&self) -> Option<u32> {
        self.width
    }
    /// `--height`.
    pub(super) fn height(&self) -> Option<u32> {
        self.height
    }
}

/// The file of `--svg`; endings that other programs take for pixel formats are refused.
fn svg_file(name: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png")) {
        let svg = path.with_extension("svg").display().to_string();
        return Err(format!(
            "pictures are written as SVG: write `{svg}`; `rsvg-convert {svg} -o {name}` or a browser makes a PNG of it"
        ));
    }
    Ok(path)
}

/// A picture that can be drawn in every form.
pub(super) trait Drawing {
    /// Size of the picture unless the user says otherwise, in logical pixels.
    fn usual_size(&self) -> PictureSize;
    fn picture(&self, size: PictureSize) -> Picture;
    fn text(&self, style: &TermStyle) -> String;
    fn put_on(&self, page: &mut HtmlPage, size: PictureSize);
}

impl Drawing for Chart {
    fn usual_size(&self) -> PictureSize {
        PictureSize { width: 960, height: 460 }
    }
    fn picture(&self, size: PictureSize) -> Picture {
        Chart::picture(self, size)
    }
    fn text(&self, style: &TermStyle) -> String {
        self.to_text(style)
    }
    fn put_on(&self, page: &mut HtmlPage, size: PictureSize) {
        page.chart(self, size);
    }
}

impl Drawing for Heatmap {
    fn usual_size(&self) -> PictureSize {
        PictureSize { width: 960, height: 640 }
    }
    fn picture(&self, size: PictureSize) -> Picture {
        Heatmap::picture(self, size)
    }
    fn text(&self, style: &TermStyle) -> String {
        self.to_text(style)
    }
    fn put_on(&self, page: &mut HtmlPage, size: PictureSize) {
        page.heatmap(self, size);
    }
}

/// One result in all its forms.
pub(super) struct Outcome<'a> {
    /// Heading of the page.
    pub(super) title: String,
    /// The picture; `None` for results that are tables.
    pub(super) drawing: Option<&'a dyn Drawing>,
    /// Tables for people, under the picture.
    pub(super) tables: Vec<Table>,
    /// The rows of the result.
    pub(super) csv: &'a dyn Fn() -> Table,
    /// The whole result.
    pub(super) json: &'a dyn Fn() -> Result<String, CliError>,
    /// Caveats to know before trusting the result.
    pub(super) notes: Vec<String>,
}

impl Outcome<'_> {
    /// Writes the files that were asked for, and prints. With files and no other `--format`, nothing is printed.
    pub(super) fn put_out(&self, args: &PictureArgs, format: Format, ui: &Ui) -> Result<(), CliError> {
        let mut wrote = self.write_pictures(args, ui)?;
        if let Some(path) = &args.html {
            write(path, self.page(args.width, args.height).to_html().as_bytes(), ui)?;
            wrote = true;
        }
        self.print(format, wrote, &self.style(args, ui), ui)
    }

    /// The same for results without a picture.
    pub(super) fn put_out_tables(&self, html: Option<&Path>, format: Format, ui: &Ui) -> Result<(), CliError> {
        if let Some(path) = html {
            write(path, self.page(None, None).to_html().as_bytes(), ui)?;
        }
        self.print(format, html.is_some(), &style(ui), ui)
    }

    fn print(&self, format: Format, wrote: bool, style: &TermStyle, ui: &Ui) -> Result<(), CliError> {
        match format {
            Format::Table if wrote => Ok(()),
            Format::Table => {
                ui.print_styled(&self.text(style))?;
                self.notes.iter().for_each(|note| ui.say(format_args!("note: {note}")));
                Ok(())
            }
            Format::Json => ui.print_data((self.json)()?),
            Format::Csv => ui.print_data((self.csv)().to_csv()),
        }
    }

    fn style(&self, args: &PictureArgs, ui: &Ui) -> TermStyle {
        let mut style = style(ui);
        style.width = args.width.map_or(style.width, |width| width as usize);
        let usual = if self.tables.is_empty() { style.height } else { style.height.min(24) };
        style.height = args.height.map_or(usual, |height| height as usize);
        style
    }

    fn text(&self, style: &TermStyle) -> Styled {
        let mut parts: Vec<String> = self.drawing.iter().map(|drawing| drawing.text(style)).collect();
        parts.extend(self.tables.iter().map(|table| table.to_text(style)));
        Styled::drawn(parts.join("\n"))
    }

    fn write_pictures(&self, args: &PictureArgs, ui: &Ui) -> Result<bool, CliError> {
        let Some(drawing) = self.drawing else { return Ok(false) };
        let Some(path) = &args.svg else { return Ok(false) };
        let size = sized(drawing.usual_size(), args.width, args.height);
        write(path, drawing.picture(size).to_svg().as_bytes(), ui)?;
        Ok(true)
    }

    fn page(&self, width: Option<u32>, height: Option<u32>) -> HtmlPage {
        let mut page = HtmlPage::new(self.title.clone(), "");
        page.section("");
        if let Some(drawing) = self.drawing {
            drawing.put_on(&mut page, sized(drawing.usual_size(), width, height));
        }
        for table in &self.tables {
            page.table(table);
        }
        if !self.notes.is_empty() {
            page.notes("What this does not know", &self.notes);
        }
        page.footer(format!("isotherm {}", env!("CARGO_PKG_VERSION")));
        page
    }
}

/// The result of an analysis as one JSON document.
pub(super) fn json(result: &impl Serialize) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(result).map_err(CliError::failed)?;
    Ok(text + "\n")
}

/// The same, with the size of the pages in which the result counts.
pub(super) fn json_in_pages(result: &impl Serialize, meta: &TraceMeta) -> Result<String, CliError> {
    #[derive(Serialize)]
    struct Document<'a, T> {
        page_bytes: u64,
        #[serde(flatten)]
        result: &'a T,
    }
    json(&Document { page_bytes: meta.page_bytes, result })
}

fn write(path: &Path, bytes: &[u8], ui: &Ui) -> Result<(), CliError> {
    isotherm_trace::write_in_one_step(path, bytes)
        .map_err(|error| CliError::failed(error).while_doing(format!("cannot write `{}`", path.display())))?;
    ui.say(format_args!("wrote {}", path.display()));
    Ok(())
}

fn sized(usual: PictureSize, width: Option<u32>, height: Option<u32>) -> PictureSize {
    PictureSize { width: width.unwrap_or(usual.width), height: height.unwrap_or(usual.height) }
}

/// Lines of a picture in the terminal unless the user says otherwise.
const LINES: usize = 36;

fn style(ui: &Ui) -> TermStyle {
    TermStyle { height: LINES, ..crate::verbs::style(ui) }
}
