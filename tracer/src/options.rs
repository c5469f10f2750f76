// SPDX-License-Identifier: GPL-2.0-or-later

//! The plugin's arguments, as `-plugin FILE,key=value,…` hands them over.

use crate::thread::EpochLength;

/// All arguments. Numbers are decimal.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// `file`: this plugin's own path, for programs started by `execve`; the emulator does not pass its own argument on.
    pub(crate) file: String,
    /// `spool`: the directory with `control` and `fifo`.
    pub(crate) spool: String,
    /// `epoch-instructions` and `epoch-ns`.
    pub(crate) epoch: EpochLength,
    /// `uid` of the first thread.
    pub(crate) uid: u32,
    /// `started-by`: uid of the thread that called `execve`.
    pub(crate) started_by: Option<u32>,
    /// `start-ns`: virtual time at which the first thread begins.
    pub(crate) start_ns: u64,
}

impl Options {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            file: String::new(),
            spool: String::new(),
            epoch: EpochLength { instructions: 0, ns: 0 },
            uid: 0,
            started_by: None,
            start_ns: 0,
        };
        for argument in arguments {
            let (key, value) = argument.split_once('=').ok_or_else(|| format!("`{argument}` is not key=value"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("`{key}={value}` is not a number"));
            let uid = || value.parse::<u32>().map_err(|_| format!("`{key}={value}` is not a 32-bit number"));
            match key {
                "tracer" => value.clone_into(&mut options.file),
                "spool" => value.clone_into(&mut options.spool),
                "epoch-instructions" => options.epoch.instructions = number()?,
                "epoch-ns" => options.epoch.ns = number()?,
                "uid" => options.uid = uid()?,
                "started-by" => options.started_by = Some(uid()?),
                "start-ns" => options.start_ns = number()?,
                _ => return Err(format!("`{key}` is not an argument of this plugin")),
            }
        }
        if options.spool.is_empty() || options.epoch.instructions == 0 || options.epoch.ns == 0 {
            return Err(
                "this plugin is started by `isotherm record`; it needs spool, epoch-instructions, epoch-ns".into()
            );
        }
        Ok(options)
    }

    /// The text after `-plugin`. The emulator wants commas doubled.
    pub(crate) fn to_argument(&self) -> String {
        let escape = |text: &str| text.replace(',', ",,");
        let EpochLength { instructions, ns } = self.epoch;
        let file = escape(&self.file);
        let mut out = format!("{file},tracer={file},spool={}", escape(&self.spool));
        out += &format!(",epoch-instructions={instructions},epoch-ns={ns},uid={}", self.uid);
        if let Some(uid) = self.started_by {
            out += &format!(",started-by={uid},start-ns={}", self.start_ns);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(text.split(',').map(str::to_owned))
    }

    #[test]
    fn what_is_written_for_exec_is_read_back() {
        let text = "tracer=/x.so,spool=/s,epoch-instructions=10,epoch-ns=3,uid=7,started-by=0,start-ns=99";
        let options = parse(text).unwrap();
        assert_eq!(options.to_argument(), format!("/x.so,{text}"));
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (text, part) in [
            ("spool", "`spool` is not key=value"),
            ("uid=x", "`uid=x` is not a 32-bit number"),
            ("colour=red", "`colour` is not an argument"),
            ("spool=/s", "started by `isotherm record`"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }
}
