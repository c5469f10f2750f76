//! A command never writes over a file that it reads.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;

use clap::ArgMatches;

use crate::error::CliError;

/// Arguments that name a file to be written, by their field.
const OUTPUTS: &[&str] = &["output", "html", "svg", "png", "report", "keep", "daemon_config", "tape", "audit"];
/// Verbs whose `--config` is written, not read.
const WRITE_CONFIG: &[&str] = &["advise", "tune"];
/// Arguments that are the command line of another program.
const FOREIGN: &[&str] = &["command"];

/// Refuses a command line in which a file is both input and output, under any of its names.
///
/// # Errors
/// A usage error that names the file.
pub(crate) fn refuse(line: &ArgMatches) -> Result<(), CliError> {
    let (mut verb, mut matches) = ("", line);
    while let Some((name, below)) = matches.subcommand() {
        (verb, matches) = (name, below);
    }
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for id in matches.ids().map(clap::Id::as_str).filter(|id| !FOREIGN.contains(id)) {
        // Groups of arguments are named after types.
        let Ok(Some(values)) = matches.try_get_raw(id) else { continue };
        let is_output = OUTPUTS.contains(&id) || (id == "config" && WRITE_CONFIG.contains(&verb));
        let files = if is_output { &mut written } else { &mut read };
        files.extend(values.map(OsStr::to_owned));
    }
    match written.iter().find(|file| read.iter().any(|input| is_same_file(input, file))) {
        Some(file) => Err(CliError::usage(format!(
            "`{}` is read, and would be written over; name another file for the result",
            file.to_string_lossy()
        ))),
        None => Ok(()),
    }
}

fn is_same_file(one: &OsString, other: &OsString) -> bool {
    let file = |path: &OsString| {
        let data = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        Some((data.dev(), data.ino()))
    };
    file(one).is_some_and(|found| file(other) == Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command};

    #[test]
    fn no_input_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(at("t"), "kept").unwrap();
        std::os::unix::fs::symlink(at("t"), at("link")).unwrap();
        std::fs::hard_link(at("t"), at("hard")).unwrap();
        let line = |verb: &'static str, words: &[&str]| {
            let verb = Command::new(verb).args([
                Arg::new("trace").num_args(1..),
                Arg::new("output").short('o'),
                Arg::new("config").long("config"),
                Arg::new("command").last(true).num_args(1..),
            ]);
            let name = verb.get_name().to_owned();
            let words = ["isotherm", &name].into_iter().chain(words.iter().copied()).map(str::to_owned);
            refuse(&Command::new("isotherm").subcommand(verb).get_matches_from(words.collect::<Vec<_>>()))
        };
        let (input, link, hard, new) = (at("t"), at("link"), at("hard"), at("new"));
        let dotted = format!("{}/./t", folder.path().display());
        for output in [&input, &link, &hard, &dotted] {
            let refused = line("cut", &[&input, "-o", output]).unwrap_err().to_string();
            assert!(refused.contains("is read, and would be written over"), "{refused}");
        }
        assert!(line("merge", &[&new, &input, "-o", &input]).is_err());
        assert!(line("advise", &[&input, "--config", &input]).is_err());
        assert!(line("cut", &[&input, "-o", &new]).is_ok() && line("cut", &[&new, "-o", &new]).is_ok());
        assert!(line("monitor", &["--config", &input, "-o", &new]).is_ok());
        assert!(line("record", &["-o", &input, "--", "cat", &input]).is_ok());
        assert!(line("report", &["/dev/null", "-o", "/dev/null"]).is_ok());
    }
}
