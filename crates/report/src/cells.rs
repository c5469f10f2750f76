//! Cells of heatmaps as small images of indexed colours, one pixel a cell: a heatmap in SVG and HTML would be too large as shapes.

use crate::colour::{Rgb, UNTOUCHED, heat_colour};

/// The cells of `columns` × `rows`, row by row from the top, as the bytes of a PNG. Level 0 is untouched memory; missing levels are 0.
pub(crate) fn cells_png(columns: usize, rows: usize, levels: &[u8]) -> Vec<u8> {
    let (columns, rows) = (columns.max(1), rows.max(1));
    let mut pixels = levels.to_vec();
    pixels.resize(columns * rows, 0);
    let size = |pixels: usize| u32::try_from(pixels).expect("a picture is at most 8192 pixels wide and high");
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, size(columns), size(rows));
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(
        (0..=255).map(level_colour).flat_map(|Rgb(red, green, blue)| [red, green, blue]).collect::<Vec<u8>>(),
    );
    let mut writer = encoder.write_header().expect("writing to memory does not fail");
    writer.write_image_data(&pixels).expect("there is one value for each pixel");
    writer.finish().expect("writing to memory does not fail");
    out
}

/// The colour of each level as 0xrrggbb.
pub(crate) fn palette() -> Vec<u32> {
    let number = |colour: Rgb| u32::from(colour.0) << 16 | u32::from(colour.1) << 8 | u32::from(colour.2);
    (0..=255u8).map(level_colour).map(number).collect()
}

fn level_colour(level: u8) -> Rgb {
    if level == 0 { UNTOUCHED } else { heat_colour(f64::from(level - 1) / 254.0) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The colours of a picture's pixels, row by row.
    pub(crate) fn decode(bytes: &[u8]) -> Vec<Vec<Rgb>> {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        let row = |row: &[u8]| row.as_chunks().0.iter().map(|&[red, green, blue]| Rgb(red, green, blue)).collect();
        pixels[..info.buffer_size()].chunks_exact(info.line_size).map(row).collect()
    }

    #[test]
    fn cells_have_the_colours_of_their_levels() {
        let rows = decode(&cells_png(2, 3, &[0, 255, 1, 128]));
        let middle = [heat_colour(0.0), heat_colour(0.5)];
        assert_eq!(rows, [[UNTOUCHED, heat_colour(1.0)], middle, [UNTOUCHED, UNTOUCHED]]);
        assert_eq!(decode(&cells_png(0, 0, &[])), [[UNTOUCHED]]);
    }
}
