//! `isotherm record --cgroup` inside real kernels: the pages recorded as used in each epoch, versus the pages that were used.

use isotherm_guest::living::LiveWorkload;
use isotherm_guest::monitoring::ARENA_PAGE;
use isotherm_guest::patterns::Pattern;
use isotherm_trace::{RowBatch, TraceReader};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use super::Rig;
use super::live::{Asked, Product, beside};
use crate::FidelityError;

const GROUP: &str = "app/recorded";
const TRACE: &str = "/tmp/trace.parquet";
const PASS_US: u64 = 10_000;

/// Figures of a recording of a pattern. Pages of the arena only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordedRun {
    pub pattern: String,
    /// `uname -r`.
    pub kernel: String,
    /// Epochs with rows.
    pub epochs: u64,
    /// Mean number of pages used in an epoch, as recorded.
    pub pages_recorded: f64,
    /// The true number: in each span of an epoch's length.
    pub pages_true: f64,
    /// Share of the used pages that was recorded as used.
    pub recall: f64,
    /// Share of pages used among those recorded as used after the first sample.
    pub precision: f64,
    /// Share of pages recorded as written in the rows after the first sample. The programs write all pages that they
    /// touch.
    pub written: f64,
    /// Knobs that the command left changed.
    pub knobs_changed: Vec<String>,
    /// Last output of the command.
    pub said: String,
}

/// Records a pattern for a number of seconds of the guest, in epochs of 100 ms.
///
/// # Errors
/// The guest does not finish, or the command fails there, with its output.
pub fn record(
    rig: &Rig<'_>,
    product: Product<'_>,
    name: &str,
    pattern: &Pattern,
    seconds: u64,
) -> Result<RecordedRun, FidelityError> {
    let workload =
        LiveWorkload { group: GROUP.to_owned(), pattern: pattern.clone(), pass_us: PASS_US, high_bytes: None };
    let length = format!("{seconds}s");
    let words = ["record", "--cgroup", GROUP, "--for", &length, "--epoch", "100ms", "--max-cpu", "100%", "-o", TRACE];
    let asked = Asked { outputs: vec![TRACE.to_owned()], ..Asked::new(&words, workload) };
    let (kernel, lived) = beside(rig, product, asked)?;
    let failed = |why: String| {
        FidelityError::Live(format!(
            "`isotherm record` ended with {:?}: {} {why}",
            lived.exit_code,
            lived.stderr.trim()
        ))
    };
    let (Some(0), Some(bytes)) = (lived.exit_code, lived.output(TRACE)) else { return Err(failed(String::new())) };
    let epochs = epochs(&bytes).map_err(failed)?;
    let passes = lived.players.first().map(|player| player.passes_ns.clone()).unwrap_or_default();
    let within: Vec<u64> = (0..)
        .zip(&passes)
        .filter(|(_, at)| (lived.ran_ns.0..lived.ran_ns.1).contains(*at))
        .map(|(pass, _)| pass)
        .collect();
    let mut used = BTreeSet::new();
    let spans: Vec<u64> = within
        .chunks(usize::try_from(100_000 / PASS_US).unwrap_or(1))
        .map(|span| {
            let mut pages = BTreeSet::new();
            span.iter().for_each(|&pass| pattern.pass(pass, |first, count| pages.extend(first..first + count)));
            used.extend(&pages);
            pages.len() as u64
        })
        .collect();
    // The first sample has the resident pages.
    let rest: Vec<_> = epochs.iter().skip(1).collect();
    let recorded: BTreeSet<u32> = rest.iter().flat_map(|(_, epoch)| epoch.pages.iter().copied()).collect();
    let both = recorded.intersection(&used).count() as f64;
    let pages: u64 = rest.iter().map(|(_, epoch)| epoch.pages.len() as u64).sum();
    let written: u64 = rest.iter().map(|(_, epoch)| epoch.written).sum();
    Ok(RecordedRun {
        pattern: name.to_owned(),
        kernel,
        epochs: rest.len() as u64,
        pages_recorded: pages as f64 / rest.len().max(1) as f64,
        pages_true: spans.iter().sum::<u64>() as f64 / spans.len().max(1) as f64,
        recall: both / used.len().max(1) as f64,
        precision: both / recorded.len().max(1) as f64,
        written: written as f64 / pages.max(1) as f64,
        knobs_changed: lived.knobs_changed,
        said: lived.stderr.trim().lines().last().unwrap_or_default().to_owned(),
    })
}

/// Pages of the arena in one epoch.
#[derive(Debug, Default)]
struct Epoch {
    pages: BTreeSet<u32>,
    written: u64,
}

/// Rows by sample; the first one has the resident pages. Rows of one sample ascend by address.
fn epochs(bytes: &[u8]) -> Result<BTreeMap<u64, Epoch>, String> {
    let file = tempfile::Builder::new().suffix(".parquet").tempfile().map_err(|error| error.to_string())?;
    std::fs::write(file.path(), bytes).map_err(|error| error.to_string())?;
    let mut reader = TraceReader::open(file.path()).map_err(|error| error.to_string())?;
    let (mut batch, mut epochs, mut number, mut last) = (RowBatch::new(), BTreeMap::<u64, Epoch>::new(), 0u64, None);
    while reader.next_batch(&mut batch).map_err(|error| error.to_string())? {
        for row in batch.rows() {
            if last.is_some_and(|last| row.page <= last) {
                number += 1;
            }
            last = Some(row.page);
            let epoch = epochs.entry(number).or_default();
            for page in row.page..row.page + u64::from(row.pages) {
                let Some(page) = page.checked_sub(ARENA_PAGE).and_then(|page| u32::try_from(page).ok()) else {
                    continue;
                };
                if epoch.pages.insert(page) {
                    epoch.written += u64::from(row.write);
                }
            }
        }
    }
    Ok(epochs)
}
