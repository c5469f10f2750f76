//! `isotherm advise --verify`: the recommendation on a real kernel, in the rig.

use std::path::{Path, PathBuf};

use isotherm_fidelity::Set;
use isotherm_fidelity::advice::play::BATCH_DEFAULT;
use isotherm_fidelity::advice::{Boot, Jobs, Key, Listed, Wanted, play_wanted};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_rig::Kernel;
use isotherm_scenario::advise::{Advice, Interval};
use isotherm_sim::memory::KernelRelease;
use isotherm_units::PAGE_BYTES;

use crate::error::CliError;
use crate::ui::Ui;
use crate::verbs::rig;
use crate::verbs::simulate::fidelity_error;

/// Seconds that a play may take, on average over those of a boot.
const SECONDS_A_PLAY: u64 = 900;

/// What has to be at hand: looked for before anything is replayed.
pub(super) struct Needs {
    guest: PathBuf,
    kernels: Vec<(KernelRelease, Kernel)>,
}

impl Needs {
    /// Finds the guest's program, and the kernels of these releases, which are fetched if need be.
    pub(super) fn of(releases: &[KernelRelease], ui: &Ui) -> Result<Self, CliError> {
        let kernels = releases.iter().map(|&release| Ok((release, rig::kernel(release.name(), ui)?)));
        Ok(Self { guest: rig::guest()?, kernels: kernels.collect::<Result<_, CliError>>()? })
    }
}

/// A recommendation at one size, on one release.
#[derive(serde::Serialize)]
pub(super) struct Verified {
    /// Release.
    kernel: KernelRelease,
    /// Set-up.
    candidate: &'static str,
    /// `memory.max` of the recorded pages.
    memory_bytes: u64,
    /// It in thousandths of the recommended.
    of_recommended_permil: u64,
    /// Major faults as predicted.
    predicted: Interval,
    /// Major faults that the real kernel counted; absent when the program was killed.
    real: Option<u64>,
    /// Whether they are at most what was predicted.
    holds: bool,
}

/// Plays each answer's recommendation, 3 % less and 3 % more, in the kernel of its release.
pub(super) fn verify(needs: &Needs, answers: &[Advice], trace: &Path, ui: &Ui) -> Result<Vec<Verified>, CliError> {
    let listed = Listed { name: answers[0].program.clone(), path: trace.to_path_buf(), set: Set::HeldOut };
    let bar = ui.spinner("making the script");
    let program = listed.build(Path::new("/"));
    bar.finish_and_clear();
    let program = program.map_err(fidelity_error)?.ok_or_else(|| CliError::failed("the recording is gone"))?;
    let folder = tempfile::tempdir().map_err(CliError::failed)?;
    let mut verified = Vec::new();
    for advice in answers {
        let Some(best) = &advice.recommendation else { continue };
        let Some((_, kernel)) = needs.kernels.iter().find(|(release, _)| *release == advice.kernel) else { continue };
        let less = best.neighbours.iter().map(|one| (one.of_recommended_permil, one.memory_bytes, one.major_faults));
        let mut sizes: Vec<(u64, u64, Interval)> = less.filter(|(permil, ..)| *permil <= 1030).collect();
        sizes.push((1000, best.memory_bytes, best.major_faults));
        sizes.sort_by_key(|(permil, ..)| *permil);
        let policy = best.candidate.split(" + ").next().unwrap_or_default();
        let wanted: Vec<Wanted> = sizes
            .iter()
            .map(|(_, bytes, _)| Wanted {
                program: listed.name.clone(),
                policy: policy.to_owned(),
                limit_pages: bytes / PAGE_BYTES,
            })
            .collect();
        let jobs = Jobs {
            kernel: (advice.kernel.name(), kernel),
            guest: &needs.guest,
            folder: folder.path(),
            jobs: 1,
            batch: usize::from(BATCH_DEFAULT),
            seconds_a_play: SECONDS_A_PLAY,
        };
        let bar = ui.spinner(&format!("playing it in Linux {}", kernel.release));
        let played = play_wanted(&jobs, std::slice::from_ref(&program), &wanted, 1, &|_| ());
        bar.finish_and_clear();
        let store = played.map_err(fidelity_error)?.store;
        for ((permil, bytes, predicted), wanted) in sizes.into_iter().zip(wanted) {
            let (digest, limit_pages) = (program.digest().to_owned(), wanted.limit_pages);
            let play = store.play(&Key { program: wanted.program, digest, policy: wanted.policy, limit_pages });
            let counted =
                play.as_ref().and_then(|play| play.counter("major_faults")).and_then(|boots| boots.into_iter().max());
            if let Some(Boot::Failed(why)) = play.as_ref().and_then(|play| play.boots.first()) {
                ui.warn(format_args!("Linux {} with {limit_pages} pages: {why}", advice.kernel));
            }
            verified.push(Verified {
                kernel: advice.kernel,
                candidate: best.candidate,
                memory_bytes: bytes,
                of_recommended_permil: permil,
                predicted,
                real: counted,
                holds: counted.is_some_and(|counted| counted <= predicted.high),
            });
        }
    }
    Ok(verified)
}

/// Predicted next to real.
pub(super) fn table(verified: &[Verified]) -> Table {
    let columns = vec![
        Column::text("kernel"),
        Column::text("set-up"),
        Column::number("memory", Unit::Bytes),
        Column::number("of recommended", Unit::Ppm),
        Column::number("predicted median", Unit::Count),
        Column::number("at least", Unit::Count),
        Column::number("at most", Unit::Count),
        Column::number("real", Unit::Count),
        Column::text("holds"),
    ];
    let mut table = Table::new("Major faults on a real kernel, one boot", columns);
    for row in verified {
        table.push(vec![
            Cell::from(row.kernel.name()),
            Cell::from(row.candidate),
            row.memory_bytes.into(),
            (row.of_recommended_permil * 1000).into(),
            row.predicted.median.into(),
            row.predicted.low.into(),
            row.predicted.high.into(),
            row.real.into(),
            Cell::from(if row.holds { "yes" } else { "no" }),
        ]);
    }
    table
}
