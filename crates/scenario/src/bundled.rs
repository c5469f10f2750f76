//! Scenarios that come with isotherm, and where its data files lie.

use std::path::{Path, PathBuf};

/// A scenario that comes with isotherm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundled {
    /// Name on the command line.
    pub name: &'static str,
    pub text: &'static str,
}

/// All bundled scenarios. To add a scenario: a file in `scenarios/` and a line here.
pub const BUNDLED: &[Bundled] = &[
    Bundled { name: "compaction", text: include_str!("../../../scenarios/compaction.toml") },
    Bundled { name: "compaction-hard", text: include_str!("../../../scenarios/compaction-hard.toml") },
    Bundled { name: "mglru", text: include_str!("../../../scenarios/mglru.toml") },
    Bundled { name: "mglru-features", text: include_str!("../../../scenarios/mglru-features.toml") },
    Bundled { name: "mglru-matrix", text: include_str!("../../../scenarios/mglru-matrix.toml") },
    Bundled { name: "mglru-tenants", text: include_str!("../../../scenarios/mglru-tenants.toml") },
    Bundled { name: "mglru-thrashing", text: include_str!("../../../scenarios/mglru-thrashing.toml") },
    Bundled { name: "plrus", text: include_str!("../../../scenarios/plrus.toml") },
    Bundled { name: "policies", text: include_str!("../../../scenarios/policies.toml") },
    Bundled { name: "promotion", text: include_str!("../../../scenarios/promotion.toml") },
    Bundled { name: "promotion-far", text: include_str!("../../../scenarios/promotion-far.toml") },
    Bundled { name: "promotion-policies", text: include_str!("../../../scenarios/promotion-policies.toml") },
    Bundled { name: "promotion-throttles", text: include_str!("../../../scenarios/promotion-throttles.toml") },
    Bundled { name: "ptp", text: include_str!("../../../scenarios/ptp.toml") },
    Bundled { name: "right-sizing", text: include_str!("../../../scenarios/right-sizing.toml") },
];

/// Finds a data file such as `traces/sqlite.parquet`: below `$ISOTHERM_DATA` (passed as `configured`), next to the
/// executable (`../share/isotherm`, or the folders above it in a checkout), or below the current folder.
///
/// # Errors
/// The file was not found; the error lists all places that were tried.
pub fn data_file(
    relative: &str,
    configured: Option<&Path>,
    executable: Option<&Path>,
) -> Result<PathBuf, Vec<PathBuf>> {
    let mut roots: Vec<PathBuf> = configured.map(Path::to_path_buf).into_iter().collect();
    for folder in executable.into_iter().flat_map(|path| path.ancestors().skip(1).take(4)) {
        roots.push(folder.join("share/isotherm"));
        roots.push(folder.to_path_buf());
    }
    roots.push(PathBuf::from("."));
    let tried: Vec<PathBuf> = roots.into_iter().map(|root| root.join(relative)).collect();
    match tried.iter().find(|path| path.exists()) {
        Some(found) => Ok(found.clone()),
        None => Err(tried),
    }
}
