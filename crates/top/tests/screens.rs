//! Whole screens. `UPDATE_SCREENS=1 cargo test -p isotherm-top` rewrites the checked-in ones.

use std::path::{Path, PathBuf};

use isotherm_report::ColourDepth;
use isotherm_top::{Frame, GroupRow, Look, Replay, RowKey, State, capture, draw, parse_keys};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;

const PLAIN: Look = Look { colour: ColourDepth::None, unicode: true };
const ASCII: Look = Look { colour: ColourDepth::None, unicode: false };

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn screen(keys: &str, size: (u16, u16), look: Look) -> String {
    let mut feed = Replay::open(tests().join("redis.regions"), 0).unwrap();
    capture(&mut feed, &parse_keys(keys).unwrap(), None, size, look).unwrap()
}

fn drawn(state: &State, (width, height): (u16, u16), look: Look) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw(state, &mut buffer, look);
    buffer
}

fn characters(buffer: &Buffer) -> String {
    buffer.content.iter().map(|cell| cell.symbol()).collect()
}

fn rows(names: impl IntoIterator<Item = String>) -> State {
    let mut state = State::new("test");
    let row = |(key, name): (u64, String)| GroupRow { key: RowKey(key), name, ..GroupRow::default() };
    state.push(Frame { groups: (0..).zip(names).map(row).collect(), ..Frame::default() });
    state
}

#[test]
fn screens_are_as_checked_in() {
    let cases = [
        ("80x24", "", (80, 24), PLAIN),
        ("200x60", "", (200, 60), PLAIN),
        ("80x24-ascii", "", (80, 24), ASCII),
        ("80x24-ages", "3<left>", (80, 24), PLAIN),
        ("80x24-help", "?", (80, 24), PLAIN),
        ("20x5", "", (20, 5), PLAIN),
    ];
    for (name, keys, size, look) in cases {
        let path = tests().join(format!("screens/{name}.txt"));
        let found = screen(keys, size, look);
        assert!(look.unicode || found.is_ascii(), "{name}");
        if std::env::var_os("UPDATE_SCREENS").is_some() {
            std::fs::create_dir_all(tests().join("screens")).unwrap();
            std::fs::write(&path, &found).unwrap();
        }
        assert_eq!(found, std::fs::read_to_string(&path).unwrap(), "{}", path.display());
    }
}

#[test]
fn the_documentation_shows_the_screen() {
    let page = std::fs::read_to_string(tests().join("../../../docs/use/watch.md")).unwrap();
    for (size, keys) in [((80, 24), ""), ((200, 60), ""), ((80, 24), "3<left>")] {
        // Lines this long are allowed in a page only in an indented block.
        let indented: Vec<String> =
            screen(keys, size, PLAIN).lines().map(|line| format!("    {line}").trim_end().to_owned()).collect();
        assert!(
            page.contains(&indented.join("\n")),
            "docs/use/watch.md must hold the screen of {size:?} after `{keys}`"
        );
    }
}

#[test]
fn numbers_of_processes_stand_in_a_column_and_notes_are_whole() {
    let mut state = State::new("test");
    let row = |pid: u32| GroupRow {
        key: RowKey(u64::from(pid)),
        pid: Some(pid),
        name: format!("program{pid}"),
        ..GroupRow::default()
    };
    let note = "no groups: the memory controller belongs to cgroup version 1 here, which isotherm does not use; boot with another setting";
    let groups = vec![row(7), row(12_345), row(812)];
    state.push(Frame { groups, notes: vec![note.to_owned()], ..Frame::default() });
    parse_keys("4").unwrap().into_iter().for_each(|key| _ = state.key(key));
    let text = characters(&drawn(&state, (80, 24), PLAIN));
    let lines: Vec<String> =
        text.chars().collect::<Vec<_>>().chunks(80).map(|line| line.iter().collect::<String>()).collect();
    let names: Vec<Option<usize>> =
        lines[2..5].iter().map(|line| line.chars().position(|letter| letter == 'p')).collect();
    assert!(names.iter().all(|&at| at.is_some() && at == names[0]), "{names:?}");
    let shown: Vec<&str> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
    let told: Vec<&str> = note.split_whitespace().collect();
    assert!(shown.windows(told.len()).any(|words| words == told), "{lines:#?}");
}

/// A kernel without generations tells no temperatures: what it tells is shown, the largest first, and why the rest is missing.
#[test]
fn without_temperatures_sizes_pressure_and_the_reason_are_shown() {
    let row = |key: u64, name: &str, mib: u64, pressure_ppm| GroupRow {
        key: RowKey(key),
        name: name.to_owned(),
        resident_bytes: Some(mib << 20),
        swapped_bytes: Some(0),
        pressure_ppm,
        ..GroupRow::default()
    };
    let mut state = State::new("test");
    let groups = vec![row(1, "/small.service", 16, Some(12_000)), row(2, "/large.service", 512, None)];
    let note = "no temperatures of groups: it needs a kernel of 6.1 or newer with CONFIG_LRU_GEN";
    state.push(Frame { groups, notes: vec![note.to_owned()], ..Frame::default() });
    let text = characters(&drawn(&state, (100, 24), PLAIN));
    let lines: Vec<String> =
        text.chars().collect::<Vec<_>>().chunks(100).map(|line| line.iter().collect::<String>()).collect();
    let words = |line: usize| lines[line].split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words(1), "NAME RSS HOT WARM COLD SWAP WORKING PRESSURE");
    assert_eq!([words(2), words(3)].map(|words| words.contains("large")), [true, false], "{lines:#?}");
    assert!(words(2).contains("512 MiB - - - 0 B - -") && words(3).contains("16 MiB - - - 0 B - 1.2 %"), "{lines:#?}");
    assert!(text.contains("it needs a kernel of 6.1 or newer"), "{lines:#?}");
}

#[test]
fn any_size_and_any_rows_are_drawn() {
    let long = "n".repeat(5000);
    let states = [
        State::new(""),
        rows([]),
        rows(["one".to_owned()]),
        rows([long, "日本語の名前".repeat(40), "\u{1b}[31m\n\t\u{200d}".to_owned()]),
        rows((0..5000).map(|number| format!("group {number}"))),
    ];
    for state in &states {
        for size in [(0, 0), (80, 0), (0, 24), (1, 1), (3, 2), (20, 5), (15, 60), (80, 24), (200, 60), (500, 3)] {
            for look in [PLAIN, ASCII] {
                let text = characters(&drawn(state, size, look));
                assert!(!text.contains(char::is_control), "{size:?}");
                assert!(look.unicode || text.is_ascii(), "{size:?}");
            }
        }
    }
}

#[test]
fn the_chosen_row_is_in_view_and_unknown_figures_are_no_zeros() {
    let mut state = rows((0..5000).map(|number| format!("group {number:04}")));
    parse_keys("<end>").unwrap().into_iter().for_each(|key| _ = state.key(key));
    let text = characters(&drawn(&state, (80, 24), PLAIN));
    assert!(text.contains("▸ group 4999"), "{text}");
    assert!(!text.contains("0 B"), "{text}");
}

#[test]
fn colours_only_where_there_are_some() {
    let mut state = State::new("");
    let mut feed = Replay::open(tests().join("redis.regions"), 0).unwrap();
    while let Some(frame) = isotherm_top::Feed::next(&mut feed, std::time::Duration::ZERO).unwrap() {
        state.push(frame);
    }
    let coloured = |colour| {
        let buffer = drawn(&state, (80, 24), Look { colour, unicode: true });
        buffer.content.iter().any(|cell| cell.bg != Color::Reset)
    };
    assert!(coloured(ColourDepth::TrueColour) && coloured(ColourDepth::Xterm256) && !coloured(ColourDepth::None));
}

#[test]
fn damaged_records_are_refused_without_panic() {
    let whole = std::fs::read(tests().join("redis.regions")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let half = &whole[..whole.len() / 2];
    for bytes in [&[][..], b"PAR1", &[0xff; 4096], half, &vec![b'x'; 1 << 20]] {
        std::fs::write(&path, bytes).unwrap();
        assert!(Replay::open(&path, 0).is_err());
    }
}

#[test]
fn a_growing_record_is_followed() {
    use isotherm_top::Feed;
    use isotherm_trace::region::{Intervals, RecordMeta, Region, RegionWriter, Snapshot};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let mut writer = RegionWriter::create(&path, RecordMeta::single("vaddr", "x")).unwrap();
    let mut push = |time_ns: u64| {
        let regions = vec![Region { start: 0, end: 4096, nr_accesses: 20, ..Region::default() }];
        let intervals = Intervals::new(5_000_000, 100_000_000, 1_000_000_000);
        writer.push(&Snapshot { time_ns, intervals, regions, ..Snapshot::default() }).unwrap();
        writer.flush().unwrap();
    };
    push(100_000_000);
    push(200_000_000);
    let mut feed = Replay::open(&path, 0).unwrap();
    let mut times = Vec::new();
    let mut drain = |feed: &mut Replay| {
        while let Some(frame) = feed.next(std::time::Duration::ZERO).unwrap() {
            assert_eq!(frame.groups[0].hot_bytes, Some(4096));
            times.push(frame.at_ns / 100_000_000);
        }
        times.clone()
    };
    assert_eq!(drain(&mut feed), [0, 1]);
    assert!(!feed.is_at_end(), "more may come");
    push(300_000_000);
    assert_eq!(drain(&mut feed), [0, 1, 2]);
    // A record cut in the middle of a batch opens up to the batch before.
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 7]).unwrap();
    let mut torn = Replay::open(&path, 0).unwrap();
    assert_eq!(drain(&mut torn)[3..], [0, 1]);
}
