//! Files of other tools that are not read, by every reader: each says what the file is and which command helps.

use isotherm_trace::TraceReader;
use isotherm_trace::group::GroupReader;
use isotherm_trace::import::{IMPORTERS, ImportOptions};
use isotherm_trace::region::RegionStore;

use crate::formats::{Case, defaults, records};

/// First bytes, and the command.
const FILES: [(&[u8], &str); 6] = [
    (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "gunzip -c FILE"),
    (b"\xfd7zXZ\0\0\x04", "xz -dc FILE"),
    (b"BZh91AY&SY", "bunzip2 -c FILE"),
    (b"\x04\x22\x4d\x18\x64\x40", "lz4 -dc FILE"),
    (b"PERFILE2h\0", "perf script -i FILE"),
    (b"\x17\x08\x44tracing6\0", "trace-cmd report -i FILE"),
];

#[test]
fn every_reader_names_them_at_any_length() {
    for (head, command) in FILES {
        // 72 bytes are three records of oracleGeneral, whose name is not believed against the content.
        for len in [head.len(), 72, 5000] {
            let mut bytes = head.to_vec();
            bytes.resize(len, 0);
            let case = Case::new("a.oracleGeneral", &bytes);
            let path = &case.input;
            let mut errors = vec![
                case.error(None, &defaults()),
                TraceReader::open(path).unwrap_err().to_string(),
                RegionStore::open(path).unwrap_err().to_string(),
                GroupReader::open(path).unwrap_err().to_string(),
            ];
            errors.extend(IMPORTERS.iter().map(|importer| case.error(Some(importer.name), &defaults())));
            for error in errors {
                assert!(
                    error.contains("a.oracleGeneral") && error.contains(command),
                    "{command}, {len} bytes: {error}"
                );
            }
        }
    }
}

#[test]
fn what_is_inside_zstd_is_named_too() {
    let inside = zstd::encode_all(FILES[0].0, 1).unwrap();
    assert!(Case::new("a.gz.zst", inside).error(None, &defaults()).contains("gunzip"));
    let columns = ImportOptions { csv_columns: Some("obj-id-col=1".into()), ..defaults() };
    assert!(Case::new("t.csv.gz", FILES[0].0).error(None, &columns).contains("compressed with gzip"));
    // A clock that begins with two of the bytes is no compression.
    let (_, rows) = Case::new("a.oracleGeneral", records(&[(0x8b1f, 7, 1, -1)])).import(None, &defaults()).unwrap();
    assert_eq!(rows[0].page, 7);
}
