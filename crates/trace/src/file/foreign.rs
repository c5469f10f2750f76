//! Files of other tools that no reader takes, known by their first bytes: their kind, and the command that makes a readable file from them.
//!
//! Sources: RFC 1952 (gzip), the formats of xz 1.2, bzip2, LZ4 frames 1.6, zip 6.3 and framed Snappy; `man 5 lzip`, `man compress`;
//! Linux `tools/perf/util/header.c`, `PERF_MAGIC`; `trace-cmd.dat(5)`.

use std::io;

/// Bytes from the start of a file that [`named`] needs.
pub(crate) const HEAD_BYTES: u64 = 512;

/// First bytes and words.
const BEGINNINGS: &[(&[u8], &str)] = &[
    (b"\x1f\x8b\x08", "compressed with gzip. Unpack it first: gunzip -c FILE > UNPACKED"),
    (b"\xfd7zXZ\0", "compressed with xz. Unpack it first: xz -dc FILE > UNPACKED"),
    (b"\x04\x22\x4d\x18", "compressed with lz4. Unpack it first: lz4 -dc FILE > UNPACKED"),
    (b"LZIP\x01", "compressed with lzip. Unpack it first: lzip -dc FILE > UNPACKED"),
    (b"\xff\x06\0\0sNaPpY", "compressed with snappy. Unpack it first"),
    (b"PK\x03\x04", "a zip archive. Unpack it first: unzip FILE"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive. Unpack it first: 7z x FILE"),
    (b"PERFILE2", PERF),
    (b"2ELIFREP", PERF),
    (b"\x17\x08\x44tracing", "a binary file of trace-cmd. Turn it into text first: trace-cmd report -i FILE > TEXT"),
];

const PERF: &str = "a binary file of perf record. Turn it into text first: perf script -i FILE > TEXT; of memory samples and page faults: \
                    perf script -i FILE -F comm,pid,tid,time,event,addr,data_src > TEXT";

/// Kind of the file that begins with `head`, and the remedy; `None` for other files.
pub(crate) fn named(head: &[u8]) -> Option<&'static str> {
    let beginning = BEGINNINGS.iter().find(|(bytes, _)| head.starts_with(bytes)).map(|(_, words)| *words);
    beginning.or_else(|| match head {
        // The magic of the first block, or of the end of an empty file, follows the level: text may begin with the first four bytes.
        [b'B', b'Z', b'h', b'1'..=b'9', rest @ ..]
            if rest.starts_with(b"1AY&SY") || rest.starts_with(b"\x17\x72\x45\x38\x50\x90") =>
        {
            Some("compressed with bzip2. Unpack it first: bunzip2 -c FILE > UNPACKED")
        }
        [0x1f, 0x9d, 0x89..=0x90, ..] => {
            Some("compressed with compress (.Z). Unpack it first: uncompress -c FILE > UNPACKED")
        }
        _ if head.get(257..262) == Some(b"ustar") => Some("a tar archive. Unpack it first: tar -xf FILE"),
        _ => None,
    })
}

/// The contents of a file that should be text, such as a configuration.
///
/// # Errors
/// What it is instead, as an error of kind `InvalidData`: a file of a known tool, a recording, or the first byte that is not UTF-8.
pub fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    if let Some(error) = no_text(&bytes) {
        return Err(error);
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("it is no text: byte {at} is not UTF-8"))
    })
}

/// What a file that begins like this is in place of text, if that is known.
pub fn no_text(head: &[u8]) -> Option<io::Error> {
    let is_ours = || [&b"PAR1"[..], b"ARROW1"].iter().any(|start| head.starts_with(start));
    let recording = "Parquet or Arrow, as recordings are: `isotherm advise FILE`, `isotherm report wss FILE`";
    let what = named(head).or_else(|| is_ours().then_some(recording))?;
    Some(io::Error::new(io::ErrorKind::InvalidData, format!("it is no text but {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_named() {
        assert_eq!(text_of(b"name = \"a\"\n".to_vec()).unwrap(), "name = \"a\"\n");
        assert_eq!(text_of(Vec::new()).unwrap(), "");
        let cases: [(&[u8], &str); 4] = [
            (b"PERFILE2h\0", "perf record"),
            (b"\x1f\x8b\x08\0", "gunzip"),
            (b"PAR1\x15", "advise"),
            (b"ab\xff", "byte 2 is not"),
        ];
        for (bytes, words) in cases {
            let error = text_of(bytes.to_vec()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn beginnings_by_hand() {
        let mut tar = [b'a'; 300];
        tar[257..262].copy_from_slice(b"ustar");
        // The first bytes of files that gzip 1.12, xz 5.4, bzip2 1.0, lz4 1.9 and ncompress 5.0 wrote.
        let table: [(&[u8], &str); 10] = [
            (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", "gunzip"),
            (b"\xfd7zXZ\x00\x00\x04\xe6\xd6", "xz -dc"),
            (b"BZh91AY&SY\x9c", "bunzip2"),
            (b"BZh9\x17\x72\x45\x38\x50\x90", "bunzip2"),
            (b"\x04\x22\x4d\x18\x64\x40", "lz4 -dc"),
            (b"\x1f\x9d\x90\x31", "uncompress"),
            (b"PK\x03\x04\x14", "unzip"),
            (&tar, "tar -xf"),
            (b"PERFILE2h\0", "perf script -i FILE"),
            (b"\x17\x08\x44tracing6\0", "trace-cmd report -i FILE"),
        ];
        for (head, words) in table {
            assert!(named(head).is_some_and(|found| found.contains(words)), "{}", head.escape_ascii());
            // One byte is never enough, and no cut panics.
            assert_eq!(named(&head[..1]), None);
            (0..head.len()).for_each(|cut| _ = named(&head[..cut]));
        }
        for other in [&b""[..], b"BZh is text", b"BZh9", b"PAR1", b"\x1f\x8b", b"0x1000 w\n", &[0; 600], &[0xff; 600]] {
            assert_eq!(named(other), None, "{}", other.escape_ascii());
        }
    }
}
