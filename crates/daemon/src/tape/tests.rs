//! Tests of damaged tapes. The tests of the loop record and replay intact ones.

use super::*;

fn header() -> String {
    let header = Header {
        isotherm_tape: VERSION,
        build: "0.1.0".to_owned(),
        config: Config::default(),
        length: Some(Duration::from_secs(5)),
    };
    serde_json::to_string(&header).unwrap()
}

#[test]
fn damaged_tapes_are_refused_with_their_line() {
    let line = |text: &str| match Tape::read(text) {
        Err(TapeError::Strange { line, .. }) => line,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(Tape::read("").unwrap_err(), TapeError::Empty);
    assert_eq!(Tape::read("\n\n").unwrap_err(), TapeError::Empty);
    assert_eq!(line("{}\n"), 1);
    assert_eq!(line("garbage\n"), 1);
    assert_eq!(Tape::read("{\"isotherm-tape\":2}\n").unwrap_err(), TapeError::Version(2));
    let header = header();
    assert_eq!(line(&format!("{header}\n[\"now\",null,1]\n[\"now\",\n[\"now\",null,2]\n")), 3);
    assert_eq!(line(&format!("{header}\n{{}}\n")), 2);
    // The last line is torn: the whole lines are replayed.
    let (read, tape) = Tape::read(&format!("{header}\n[\"now\",null,1]\n[\"now\",nul")).unwrap();
    assert_eq!(read.length, Some(Duration::from_secs(5)));
    assert_eq!(tape.played().left, 1);
}

#[test]
fn a_replay_stops_at_the_first_difference() {
    let (_, tape) = Tape::read(&format!("{}\n[\"now\",null,7]\n[\"there\",\"/a\",true]\n", header())).unwrap();
    let zero = || 0u64;
    assert_eq!(tape.call("now", (), zero, zero), 7);
    assert!(!tape.call("there", "/b", || true, || false));
    let difference = tape.played().difference.unwrap();
    assert_eq!((difference.line, difference.tape.as_str()), (3, "there \"/a\""));
    assert_eq!(difference.replay, "there \"/b\"");
    assert!(tape.is_over() && tape.call("now", (), || 1, zero) == 0, "nothing is played any more");
    // An answer of the wrong type.
    let (_, tape) = Tape::read(&format!("{}\n[\"now\",null,\"late\"]\n", header())).unwrap();
    assert_eq!(tape.call("now", (), zero, zero), 0);
    assert!(tape.played().difference.unwrap().replay.contains("cannot have"));
}
