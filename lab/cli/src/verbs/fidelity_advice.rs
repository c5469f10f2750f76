//! `isotherm-lab fidelity-advice`: whether recommendations of `isotherm advise` hold in real kernels.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_advise::{ModelError, model_error};
use isotherm_fidelity::advice::play::BATCH_DEFAULT;
use isotherm_fidelity::advice::{
    Answers, Calibration, Interval, Jobs, Judged, KERNELS, Key, Listed, Predictions, Program, Programs, Store,
    StoredPlay, Wanted, calibrate, coverage, play_wanted, wanted,
};
use isotherm_fidelity::{FidelityError, Set};
use isotherm_terminal::{CliError, FormatArg, Ui, data_folder};
use rayon::prelude::*;

use self::tables::{Shown, print};
use super::fidelity::error;
use super::rig;

mod ask;
mod tables;

/// Judge `isotherm advise` by real kernels: whether its recommendations hold there, and what safety costs.
///
/// Whole recordings are played in real kernels at many sizes, and what these counted is stored. A recording that is not there is
/// skipped.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Only these programs.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    program: Vec<String>,
    /// Only these kernels.
    #[arg(long, value_name = "KERNEL", value_delimiter = ',')]
    kernel: Vec<String>,
    /// First play in real kernels the runs of these kinds that the stores lack.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    refresh: Vec<Kind>,
    /// Boots of each play [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100), requires = "refresh")]
    boots: Option<u32>,
    /// Virtual machines at the same time [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), requires = "refresh")]
    jobs: Option<u16>,
    /// Plays in one boot, at most. An interruption loses only the current batch.
    #[arg(long, value_name = "N", default_value_t = BATCH_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000), requires = "refresh")]
    batch: u16,
    /// A boot is given up when it takes longer, in seconds for each of its plays (and five minutes).
    #[arg(long, value_name = "SECONDS", default_value_t = 900, value_parser = clap::value_parser!(u64).range(1..=86_400), requires = "refresh")]
    seconds: u64,
    /// Folder of the stores and of the answers [default: scenarios/fidelity/advice next to the recordings].
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Answers to judge [default: answers.json in the folder of the stores, if it is there].
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// Ask `isotherm advise` again, and store its answers in answers.json in the folder of the stores.
    #[arg(long)]
    ask: bool,
    /// Predict stored plays again: show which predictions hold, and by how much they must be widened.
    #[arg(long)]
    predict: bool,
    /// Write by how much predictions must be widened as the file that `isotherm advise` is built with.
    #[arg(long, value_name = "FILE", requires = "predict")]
    fit: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm-lab fidelity-advice
  isotherm-lab fidelity-advice --program sqlite,node --format csv
  isotherm-lab fidelity-advice --refresh grid --program sqlite --kernel 6.12
  isotherm-lab fidelity-advice --refresh hold,scan --answers answers.json
  isotherm-lab fidelity-advice --predict
  isotherm-lab fidelity-advice --predict --fit crates/advise/data/model-error.json
  isotherm-lab fidelity-advice --ask --refresh hold,scan

before.json in the folder of the stores holds the answers of an older rule, which are judged next to the others.
--refresh needs what `isotherm-lab rig` needs. Only what the stores lack is played; they are written after each boot.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Both policies at 45, 55, 65, 75, 85 and 95 % of the peak.
    Grid,
    /// Recommended sizes, 3 % more and 10 % more; three boots.
    Hold,
    /// From recommended sizes of the slow-down of 5 % downwards in steps of 2 %, until one is too slow or 20 % less.
    Scan,
    /// As `hold`, for the answers of the older rule.
    BeforeHold,
}

impl Kind {
    const fn boots(self) -> u32 {
        match self {
            Self::Grid | Self::Scan => 1,
            Self::Hold | Self::BeforeHold => 3,
        }
    }
}

/// Folders and selection of a run.
struct Setting {
    /// Folder that holds `traces`.
    root: PathBuf,
    /// Folder of the stores.
    folder: PathBuf,
    /// Kernels by their names in the rig, each with its release.
    kernels: Vec<(&'static str, &'static str)>,
    /// Answers of the rule to judge, if there are any, and of the older one.
    answers: Option<Answers>,
    before: Option<Answers>,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let root = data_folder()?;
    let folder = args.data.clone().unwrap_or_else(|| root.join("scenarios/fidelity/advice"));
    let bundled = Programs::bundled();
    let listed = bundled.named(&args.program).map_err(error)?;
    let kernels = kernels(&args.kernel).map_err(error)?;
    if args.ask {
        let path = args.answers.clone().unwrap_or_else(|| folder.join("answers.json"));
        let releases: Vec<&str> = kernels.iter().map(|(_, release)| *release).collect();
        let asked = ask::answers(&listed, &root, &releases, ui)?;
        // Answers to questions that were not asked stay.
        let older = if path.exists() { Answers::load(&path).map_err(error)? } else { asked.clone() };
        std::fs::write(&path, asked.over(older).to_text())
            .map_err(|source| CliError::failed(format!("cannot write {}: {source}", path.display())))?;
    }
    let if_there = |path: PathBuf| path.exists().then(|| Answers::load(&path)).transpose();
    let answers = match &args.answers {
        Some(path) => Answers::load(path).map(Some),
        None => if_there(folder.join("answers.json")),
    };
    let setting = Setting {
        kernels,
        answers: answers.map_err(error)?,
        before: if_there(folder.join("before.json")).map_err(error)?,
        root,
        folder,
    };
    if !args.refresh.is_empty() {
        refresh(&args, &setting, &listed, ui)?;
    }
    let shown = judge(&setting, &listed, args.predict, ui)?;
    if let Some(path) = &args.fit {
        let fitted = model_errors(&shown)?;
        let text = serde_json::to_string_pretty(&fitted).map_err(CliError::failed)?;
        std::fs::write(path, format!("{text}\n"))
            .map_err(|source| CliError::failed(format!("cannot write {}: {source}", path.display())))?;
    }
    print(&shown, args.format.format, ui)?;
    Ok(ExitCode::SUCCESS)
}

/// Joins stored plays with answers and predictions.
fn judge(setting: &Setting, listed: &[&Listed], predicts: bool, ui: &Ui) -> Result<Shown, CliError> {
    let mut stores = Vec::new();
    for (_, release) in &setting.kernels {
        stores.extend(Store::load(&setting.folder, release).map_err(error)?);
    }
    let bar = ui.spinner("reading the recordings");
    let digests: Vec<_> = listed.par_iter().map(|listed| listed.digest(&setting.root)).collect();
    bar.finish_and_clear();
    let mut current: BTreeMap<&str, String> = BTreeMap::new();
    for (listed, digest) in listed.iter().zip(digests) {
        // Without the recording, the stored plays are used as they are: a store has one recording of each program.
        let stored = || {
            let own = |play: StoredPlay| (play.key.program == listed.name).then_some(play.key.digest);
            stores.iter().flat_map(Store::plays).find_map(own)
        };
        if let Some(digest) = digest.map_err(error)?.or_else(stored) {
            current.insert(&listed.name, digest);
        }
    }
    let set_of =
        |program: &str| -> Option<Set> { listed.iter().find(|listed| listed.name == program).map(|listed| listed.set) };
    let find = |kernel: &str, program: &str, policy: &str, limit_pages: u64| {
        let store = stores.iter().find(|store| store.kernel == kernel)?;
        let digest = current.get(program)?.clone();
        store.play(&Key { program: program.to_owned(), digest, policy: policy.to_owned(), limit_pages })
    };
    let is_chosen =
        |answer: &isotherm_fidelity::advice::Answer| setting.kernels.iter().any(|(_, kernel)| answer.kernel == *kernel);
    let judged = |answers: &Answers| Judged::of(answers, &is_chosen, &set_of, &find);
    let plays_of = |store: &Store| -> Vec<StoredPlay> {
        store.plays().filter(|play| current.get(play.key.program.as_str()) == Some(&play.key.digest)).collect()
    };
    let (mut coverages, mut calibrations) = (Vec::new(), Vec::new());
    if predicts {
        let mut predictions = Vec::new();
        for store in &stores {
            predictions.extend(ask::predictions(listed, &setting.root, &store.kernel, &plays_of(store), ui)?);
        }
        let predictions = Predictions::new(predictions).map_err(error)?;
        let by_chance = |kernel: &str, play: &StoredPlay, counter: &str| predictions.of(kernel, play, counter);
        let widened = |kernel: &str, play: &StoredPlay, counter: &str| {
            let interval = by_chance(kernel, play, counter)?;
            let known = model_error(&play.key.policy, kernel.parse().ok()?, counter)?;
            Some(Interval { low: known.widened_low(interval.low), high: known.widened_high(interval.high) })
        };
        let mut fitting = BTreeMap::new();
        for store in &stores {
            let mut plays = plays_of(store);
            coverages.extend(coverage(&store.kernel, &plays, &set_of, &widened));
            plays.retain(|play| set_of(&play.key.program) == Some(Set::Fitting));
            fitting.insert(store.kernel.clone(), plays);
        }
        calibrations = calibrate(&fitting, &by_chance);
    }
    Ok(Shown {
        stored: stores.iter().map(|store| (store.kernel.clone(), store.release.clone(), plays_of(store))).collect(),
        judged: setting.answers.iter().chain(&setting.before).map(judged).collect(),
        coverages,
        calibrations,
    })
}

/// The model's error as found here, in the form that `isotherm advise` reads.
fn model_errors(shown: &Shown) -> Result<Vec<ModelError>, CliError> {
    let of = |found: &Calibration| {
        let (Some(above_ppm), Some(above_95_ppm), Some(below_ppm)) =
            (found.above_ppm, found.above_95_ppm, found.below_ppm)
        else {
            let message = format!(
                "{} of {}: a predicted program was killed, so that no factor holds",
                found.policy, found.release
            );
            return Err(CliError::failed(message));
        };
        Ok(ModelError {
            policy: found.policy.clone(),
            kernel: found.release.parse().map_err(CliError::failed)?,
            counter: found.counter.clone(),
            runs: found.n,
            programs: found.programs,
            above_ppm,
            above_95_ppm,
            below_ppm,
        })
    };
    shown.calibrations.iter().map(of).collect()
}

/// Kernels by their names in the rig, each with its release; either may be named.
fn kernels(named: &[String]) -> Result<Vec<(&'static str, &'static str)>, FidelityError> {
    let is = |name: &String, &(rig, release): &(&str, &str)| name == rig || name == release;
    if let Some(name) = named.iter().find(|name| !KERNELS.iter().any(|kernel| is(name, kernel))) {
        let known: Vec<&str> = KERNELS.iter().map(|(_, release)| *release).collect();
        return Err(FidelityError::Unknown {
            what: "kernel of the comparison",
            name: name.clone(),
            known: known.join(", "),
        });
    }
    let chosen = KERNELS.iter().filter(|kernel| named.is_empty() || named.iter().any(|name| is(name, kernel)));
    Ok(chosen.copied().collect())
}

/// Scripts of the programs in `listed` whose recordings exist.
fn programs(listed: &[&Listed], root: &Path, ui: &Ui) -> Result<Vec<Program>, CliError> {
    let bar = ui.spinner("making the scripts");
    let built: Vec<_> = listed.par_iter().map(|listed| listed.build(root)).collect();
    bar.finish_and_clear();
    let mut programs = Vec::new();
    for (listed, program) in listed.iter().zip(built) {
        let Some(program) = program.map_err(error)? else {
            ui.say(format_args!("{} is skipped: its recording {} is not there", listed.name, listed.path.display()));
            continue;
        };
        let operations = program.workload.script.operations.len();
        let peak = program.peak().get();
        ui.say(format_args!("{} ({}): {operations} operations, peak {peak} pages", listed.name, listed.set.name()));
        programs.push(program);
    }
    Ok(programs)
}

fn refresh(args: &Args, setting: &Setting, listed: &[&Listed], ui: &Ui) -> Result<(), CliError> {
    for kind in &args.refresh {
        // Missing files are reported before anything is booted.
        if let Some(file) = lacking(*kind, setting) {
            return Err(CliError::usage(format!("there are no answers to play: {} is missing", file.display())));
        }
    }
    let guest = rig::guest()?;
    let programs = programs(listed, &setting.root, ui)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    for &(name, release) in &setting.kernels {
        let kernel = rig::kernel(name, ui)?;
        let jobs = Jobs {
            kernel: (release, &kernel),
            guest: &guest,
            folder: &setting.folder,
            jobs: args.jobs.map_or(processors, usize::from),
            batch: usize::from(args.batch),
            seconds_a_play: args.seconds,
        };
        for kind in &args.refresh {
            let boots = args.boots.unwrap_or(kind.boots());
            // A scan goes on below a size that it found safe.
            let mut before = None;
            loop {
                let store = Store::load(&setting.folder, release).map_err(error)?;
                let wanted = wanted_of(*kind, release, setting, &programs, store.as_ref());
                if before.as_ref() == Some(&wanted) {
                    break;
                }
                let played = play_wanted(&jobs, &programs, &wanted, boots, &|line| ui.say(line)).map_err(error)?;
                if played.plays > 0 {
                    let each = played.took.as_secs_f64() / played.plays as f64;
                    let stored = played.store.len();
                    ui.say(format_args!("{release}: {} plays, {each:.1} s each; {stored} are stored", played.plays));
                }
                before = Some(wanted);
            }
        }
    }
    Ok(())
}

/// The file of answers that a kind of play needs and that does not exist.
fn lacking(kind: Kind, setting: &Setting) -> Option<PathBuf> {
    match kind {
        Kind::Hold | Kind::Scan if setting.answers.is_none() => Some(setting.folder.join("answers.json")),
        Kind::BeforeHold if setting.before.is_none() => Some(setting.folder.join("before.json")),
        _ => None,
    }
}

fn wanted_of(kind: Kind, kernel: &str, setting: &Setting, programs: &[Program], store: Option<&Store>) -> Vec<Wanted> {
    let answers = |answers: &Option<Answers>| answers.iter().flat_map(|of| of.answers.clone()).collect::<Vec<_>>();
    let mut wanted = match kind {
        Kind::Grid => programs.iter().flat_map(wanted::grid).collect(),
        Kind::Hold => wanted::hold(kernel, &answers(&setting.answers)),
        Kind::Scan => {
            let digest = |name: &str| programs.iter().find(|program| program.name() == name).map(Program::digest);
            let find = |program: &str, policy: &str, limit_pages: u64| {
                let (program, digest, policy) = (program.to_owned(), digest(program)?.to_owned(), policy.to_owned());
                store?.play(&Key { program, digest, policy, limit_pages })
            };
            wanted::scan(kernel, &answers(&setting.answers), &find)
        }
        Kind::BeforeHold => wanted::hold(kernel, &answers(&setting.before)),
    };
    let there: BTreeSet<&str> = programs.iter().map(Program::name).collect();
    wanted.retain(|wanted| there.contains(wanted.program.as_str()));
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_named_by_its_release_or_as_in_the_rig() {
        let names = |named: &[&str]| {
            let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
            kernels(&named).map(|kernels| kernels.iter().map(|(_, release)| *release).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap(), ["7.2", "6.12"]);
        assert_eq!(names(&["7.2"]).unwrap(), names(&[KERNELS[0].0]).unwrap());
        let error = names(&["2.6"]).unwrap_err().to_string();
        assert_eq!(error, "no kernel of the comparison is called `2.6`; there are 7.2, 6.12");
    }
}
