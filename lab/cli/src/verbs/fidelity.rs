//! `isotherm-lab fidelity`: the simulated machine versus real kernels.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use isotherm_fidelity::{
    Bar, Comparison, FidelityError, Folios, KernelData, LIMITS_PERCENT, Refresh, Selection, Workload, Workloads,
};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, Format, FormatArg, Ui, data_folder, render};
use isotherm_units::Ratio;

use super::rig;

/// Compare the simulated machine with real kernels: the same accesses in both, counter by counter.
///
/// The counters of real kernels are stored; only the simulated machine plays again. The boots of a kernel give a range of counts; errors
/// are measured from its nearer end. Exact LRU of the same size is shown for comparison: it is a prediction without a model.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    chosen: Chosen,
}

/// For `#[command(flatten)]`: the part of the matrix, where its data are, and whether they are made again.
#[derive(clap::Args)]
pub(super) struct Chosen {
    /// Only these kernels.
    #[arg(long, value_name = "KERNEL", value_delimiter = ',')]
    kernel: Vec<String>,
    /// Only these workloads.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    workload: Vec<String>,
    /// Only these policies.
    #[arg(long, value_name = "POLICY", value_delimiter = ',')]
    policy: Vec<String>,
    /// Only these limits: shares of the workload's peak memory.
    #[arg(long, value_name = "SHARE", value_delimiter = ',')]
    limit: Vec<Ratio>,
    /// Play the selection in real kernels first, and store their counters.
    #[arg(long)]
    pub(super) refresh: bool,
    /// How often each kernel is booted.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100), requires = "refresh")]
    pub(super) boots: u32,
    /// Seconds after which a boot is given up.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=86_400), requires = "refresh")]
    seconds: u64,
    /// Folder of the stored runs [default: those that come with isotherm-lab; with --refresh a folder of scenarios next to the
    /// recordings].
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    #[command(flatten)]
    pub(super) format: FormatArg,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm-lab fidelity
  isotherm-lab fidelity --workload zipf,uniform --policy mglru --format json
  isotherm-lab fidelity --refresh --kernel 6.12 --workload zipf --limit 75% --data runs

--refresh needs what `isotherm-lab rig` needs; its whole takes more than half an hour. The stored runs
that come with isotherm-lab are part of the program: after a --refresh build it anew, or name the
folder with --data. Runs of another release of the kernel replace its file.";

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let chosen = &args.chosen;
    let (selection, workloads) = chosen.built(&Workloads::bundled(), ui)?;
    let folder = chosen.folder("scenarios/fidelity")?;
    if let (Some(folder), true) = (&folder, chosen.refresh) {
        chosen.refresh(&selection, &workloads, Folios::SINGLE, "fidelity", &|data| data, folder, ui)?;
    }
    let data = match &folder {
        Some(folder) => KernelData::load_all(folder),
        None => KernelData::bundled(),
    };
    let bar = ui.progress("simulating", isotherm_fidelity::compare::nr_simulated(&workloads, &selection));
    let compared = isotherm_fidelity::compare::compare(&workloads, &selection, &data.map_err(error)?, &|| bar.inc(1));
    bar.finish_and_clear();
    print(&compared.map_err(error)?, chosen.format.format, ui)?;
    Ok(ExitCode::SUCCESS)
}

/// A share in percent, as in the matrix; a share that is not a whole percent is none of its limits.
fn percent(share: &Ratio) -> Result<u32, FidelityError> {
    let whole = share.ppm().is_multiple_of(10_000).then(|| u32::try_from(share.ppm() / 10_000).ok()).flatten();
    whole.ok_or_else(|| FidelityError::Unknown {
        what: "limit in percent",
        name: share.to_string(),
        known: LIMITS_PERCENT.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    })
}

impl Chosen {
    /// The selection, and the selected workloads among `all`, ready to be played.
    pub(super) fn built(&self, all: &Workloads, ui: &Ui) -> Result<(Selection, Vec<Workload>), CliError> {
        let selection = Selection {
            kernels: rig::kernel_names(&self.kernel),
            workloads: self.workload.clone(),
            policies: self.policy.clone(),
            limits: self.limit.iter().map(percent).collect::<Result<_, _>>().map_err(error)?,
        };
        selection.check(all).map_err(error)?;
        let bar = ui.spinner("making the workloads");
        let workloads = all.build(&selection, &data_folder()?);
        bar.finish_and_clear();
        Ok((selection, workloads.map_err(error)?))
    }

    /// Folder of the data; `None`: those that come with the command. `own` is that of new data.
    pub(super) fn folder(&self, own: &str) -> Result<Option<PathBuf>, CliError> {
        match (&self.data, self.refresh) {
            (Some(folder), _) => Ok(Some(folder.clone())),
            (None, true) => Ok(Some(data_folder()?.join(own))),
            (None, false) => Ok(None),
        }
    }

    /// Plays in real kernels and stores what `kept` leaves of it in `folder`. `verb` is the command's, with further arguments.
    #[expect(clippy::too_many_arguments, reason = "two verbs call it, each with its own")]
    pub(super) fn refresh(
        &self,
        selection: &Selection,
        workloads: &[Workload],
        folios: &Folios,
        verb: &str,
        kept: &dyn Fn(KernelData) -> KernelData,
        folder: &Path,
        ui: &Ui,
    ) -> Result<(), CliError> {
        let guest = rig::guest()?;
        let command = self.command(verb);
        for name in selection.kernels() {
            let kernel = rig::kernel(name, ui)?;
            let refresh = Refresh {
                kernel: (name, &kernel),
                guest: &guest,
                folios,
                selection,
                workloads,
                boots: self.boots,
                time_limit: Duration::from_secs(self.seconds),
                command: &command,
            };
            let what = format!("Linux {}, folios: {}", kernel.release, folios.name);
            let bar = ui.progress(&what, refresh.nr_runs() as u64 * u64::from(self.boots));
            let newer = refresh.go(&|done| bar.set_position(done));
            bar.finish_and_clear();
            let newer = kept(newer.map_err(error)?);
            let stored = match KernelData::load(folder, name).map_err(error)? {
                Some(mut stored) => {
                    stored.take(newer);
                    stored
                }
                None => newer,
            };
            let path = stored.store(folder).map_err(error)?;
            ui.say(format_args!("{}: {} runs of Linux {}", path.display(), stored.runs.len(), kernel.release));
        }
        Ok(())
    }

    /// The command that makes these data.
    fn command(&self, verb: &str) -> String {
        let mut command = format!("isotherm-lab {verb} --refresh");
        let limits: Vec<String> = self.limit.iter().map(ToString::to_string).collect();
        for (flag, values) in [
            ("--kernel", &self.kernel),
            ("--workload", &self.workload),
            ("--policy", &self.policy),
            ("--limit", &limits),
        ] {
            if !values.is_empty() {
                command = format!("{command} {flag} {}", values.join(","));
            }
        }
        format!("{command} --boots {}", self.boots)
    }
}

pub(super) fn error(error: FidelityError) -> CliError {
    match error {
        FidelityError::Rig(error) => rig::error(error),
        FidelityError::Unknown { .. } | FidelityError::Nothing { .. } | FidelityError::NoBoots { .. } => {
            CliError::usage(error)
        }
        _ => CliError::failed(error),
    }
}

fn print(compared: &Comparison, format: Format, ui: &Ui) -> Result<(), CliError> {
    match format {
        Format::Json => {
            let json = serde_json::to_string_pretty(compared).map_err(CliError::failed)?;
            ui.print_data(format_args!("{json}\n"))
        }
        Format::Csv => ui.print_data(rows(compared).to_csv()),
        Format::Table => {
            for table in [rows(compared), residency(compared), summary(&compared.bars)] {
                ui.print_styled(&render(&table, Format::Table, ui).before_line())?;
            }
            Ok(())
        }
    }
}

fn ppm(share: f64) -> f64 {
    share * 1e6
}

const CELL: [&str; 5] = ["workload", "set", "kernel", "policy", "limit"];

fn columns<'a>(numbers: impl IntoIterator<Item = (&'a str, Unit)>, more: Option<&str>) -> Vec<Column> {
    let texts = CELL.into_iter().chain(more).map(Column::text);
    texts.chain(numbers.into_iter().map(|(name, unit)| Column::number(name, unit))).collect()
}

fn rows(compared: &Comparison) -> Table {
    let numbers = [
        ("simulated", Unit::Count),
        ("real least", Unit::Count),
        ("real most", Unit::Count),
        ("ratio", Unit::Factor),
        ("error", Unit::Ppm),
        ("exact LRU", Unit::Count),
        ("its error", Unit::Ppm),
    ];
    let versions: Vec<String> = compared.kernels.iter().map(|(name, release)| format!("{name} = {release}")).collect();
    let mut table = Table::new(format!("counters ({})", versions.join(", ")), columns(numbers, Some("metric")));
    for row in &compared.rows {
        table.push(vec![
            Cell::from(row.workload.as_str()),
            Cell::from(row.set.name()),
            Cell::from(row.kernel.as_str()),
            Cell::from(row.policy.as_str()),
            Cell::from(format!("{} %", row.limit_percent)),
            Cell::from(row.metric),
            Cell::from(row.simulated),
            Cell::from(row.real_low),
            Cell::from(row.real_high),
            Cell::from(row.ratio),
            Cell::from(row.error.map(ppm)),
            Cell::from(row.naive),
            Cell::from(row.naive_error.map(ppm)),
        ]);
    }
    table
}

fn residency(compared: &Comparison) -> Table {
    let numbers = [("overlap", Unit::Factor), ("exact LRU", Unit::Factor), ("two boots", Unit::Factor)];
    let mut table = Table::new("overlap of resident pages at the end (Jaccard index)", columns(numbers, None));
    for row in &compared.residency {
        table.push(vec![
            Cell::from(row.workload.as_str()),
            Cell::from(row.set.name()),
            Cell::from(row.kernel.as_str()),
            Cell::from(row.policy.as_str()),
            Cell::from(format!("{} %", row.limit_percent)),
            Cell::from(row.overlap),
            Cell::from(row.naive_overlap),
            Cell::from(row.boots_overlap),
        ]);
    }
    table
}

fn summary(bars: &[Bar]) -> Table {
    let mut table = Table::new(
        "bars",
        vec![
            Column::text("what"),
            Column::number("rows", Unit::Count),
            Column::number("measured", Unit::Ppm),
            Column::text("bar"),
            Column::text("met"),
        ],
    );
    for bar in bars {
        let sign = if bar.at_least { "at least" } else { "at most" };
        table.push(vec![
            Cell::from(bar.what.as_str()),
            Cell::from(bar.rows as u64),
            Cell::from(bar.measured.filter(|share| share.is_finite()).map(ppm)),
            Cell::from(format!("{sign} {} %", (bar.bar * 1000.0).round() / 10.0)),
            Cell::from(match bar.is_met {
                Some(true) => "met",
                Some(false) => "missed",
                None => "no rows",
            }),
        ]);
    }
    table
}
