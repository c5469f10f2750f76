//! Where a picture goes: the terminal, or files. Shared by all pictures of `isotherm report`.

use std::path::{Path, PathBuf};

use isotherm_report::{Chart, Heatmap, HtmlPage, Picture, PictureSize, Table, TermStyle, Theme};
use isotherm_trace::TraceMeta;
use serde::Serialize;

use crate::error::CliError;
use crate::format::Format;
use crate::ui::Ui;

/// For `#[command(flatten)]` in the arguments of a picture.
#[derive(Debug, clap::Args)]
pub(super) struct PictureArgs {
    /// Write the picture as PNG.
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Write the picture as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write a page with picture and numbers as one HTML file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Width: columns in the terminal, pixels in files [default: the terminal's; 960, PNG 1920].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    width: Option<u32>,
    /// Height: lines in the terminal, pixels in files.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    height: Option<u32>,
    /// Background of the PNG; SVG and HTML follow the viewer's preference.
    #[arg(long, value_enum, value_name = "THEME", default_value_t)]
    theme: ThemeChoice,
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

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum ThemeChoice {
    /// Dark ink on white.
    #[default]
    Light,
    /// Light ink on near-black.
    Dark,
}

/// What can be drawn in every form.
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
    /// The rows behind it.
    pub(super) csv: &'a dyn Fn() -> Table,
    /// The whole result.
    pub(super) json: &'a dyn Fn() -> Result<String, CliError>,
    /// What to know before trusting it.
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
                ui.print(self.text(style))?;
                self.notes.iter().for_each(|note| ui.say(format_args!("note: {note}")));
                Ok(())
            }
            Format::Json => ui.print((self.json)()?),
            Format::Csv => ui.print((self.csv)().to_csv()),
        }
    }

    fn style(&self, args: &PictureArgs, ui: &Ui) -> TermStyle {
        let mut style = style(ui);
        style.width = args.width.map_or(style.width, |width| width as usize);
        let usual = if self.tables.is_empty() { style.height } else { style.height.min(24) };
        style.height = args.height.map_or(usual, |height| height as usize);
        style
    }

    fn text(&self, style: &TermStyle) -> String {
        let mut parts: Vec<String> = self.drawing.iter().map(|drawing| drawing.text(style)).collect();
        parts.extend(self.tables.iter().map(|table| table.to_text(style)));
        parts.join("\n")
    }

    fn write_pictures(&self, args: &PictureArgs, ui: &Ui) -> Result<bool, CliError> {
        let Some(drawing) = self.drawing else { return Ok(false) };
        let usual = drawing.usual_size();
        if let Some(path) = &args.png {
            let (size, scale) = png_size(usual, args.width, args.height);
            let theme = match args.theme {
                ThemeChoice::Light => Theme::Light,
                ThemeChoice::Dark => Theme::Dark,
            };
            write(path, &drawing.picture(size).to_png(theme, scale), ui)?;
        }
        if let Some(path) = &args.svg {
            write(path, drawing.picture(sized(usual, args.width, args.height)).to_svg().as_bytes(), ui)?;
        }
        Ok(args.png.is_some() || args.svg.is_some())
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

/// The same with the size of the pages that the result counts in.
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

/// The logical size and the scale of a PNG of so many pixels: text keeps its size up to 960 pixels and grows to the
/// double at 1920.
fn png_size(usual: PictureSize, width: Option<u32>, height: Option<u32>) -> (PictureSize, f64) {
    let width = width.unwrap_or(usual.width * 2);
    let height = height.unwrap_or_else(|| width.saturating_mul(usual.height) / usual.width);
    let scale = (f64::from(width) / 960.0).clamp(1.0, 2.0);
    #[expect(clippy::cast_possible_truncation, reason = "at most 16,384")]
    let logical = |pixels: u32| (f64::from(pixels) / scale).round() as u32;
    (PictureSize { width: logical(width), height: logical(height) }, scale)
}

/// Lines of a picture in the terminal unless the user says otherwise.
const LINES: usize = 36;

fn style(ui: &Ui) -> TermStyle {
    TermStyle { height: LINES, ..crate::verbs::style(ui) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_png_has_the_pixels_that_were_asked_for() {
        let usual = PictureSize { width: 960, height: 460 };
        let table = [
            (None, None, (960, 460), 2.0),
            (Some(480), Some(300), (480, 300), 1.0),
            (Some(1440), Some(600), (960, 400), 1.5),
            (Some(3840), Some(2000), (1920, 1000), 2.0),
        ];
        for (width, height, logical, scale) in table {
            let size = PictureSize { width: logical.0, height: logical.1 };
            assert_eq!(png_size(usual, width, height), (size, scale), "{width:?} {height:?}");
        }
    }
}
