//! What `isotherm advise --format json` states.

use crate::VerifyError;
use isotherm_units::Bytes;
use serde::Serialize;
use serde_json::Value;

/// Policies that a kernel runs without a daemon.
const POLICIES: [&str; 2] = ["classic", "mglru"];

/// A recommendation, and what is predicted at each size for its policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stated {
    pub program: String,
    /// Page-replacement policy that it is for.
    pub policy: String,
    pub memory_bytes: u64,
    pub peak_bytes: u64,
    /// Allowed slow-down in millionths, 1,050,000 for 5 %.
    pub slowdown_ppm: u64,
    /// By size, the smallest first.
    pub rows: Vec<Predicted>,
}

/// A prediction for one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Predicted {
    pub memory_bytes: u64,
    /// Runtime relative to that without a limit, in millionths.
    pub runtime_ratio_ppm: [u64; 3],
    pub major_faults: [u64; 3],
}

impl Stated {
    /// The prediction for a size; `None` if it was not played.
    pub fn at(&self, memory: Bytes) -> Option<&Predicted> {
        self.rows.iter().find(|row| row.memory_bytes == memory.get())
    }

    /// The recommended size, and one about a tenth below and above it: sizes with a prediction where there are some.
    pub fn sizes(&self) -> Vec<crate::Size> {
        let near = |permil: u64| {
            let wanted = u64::try_from(u128::from(self.memory_bytes) * u128::from(permil) / 1000).unwrap_or(u64::MAX);
            let is_on_this_side =
                |bytes: u64| (bytes < self.memory_bytes) == (permil < 1000) && bytes != self.memory_bytes;
            let played = self.rows.iter().map(|row| row.memory_bytes);
            let close = played.filter(|&bytes| is_on_this_side(bytes) && bytes.abs_diff(wanted) <= wanted / 25);
            close.min_by_key(|bytes| bytes.abs_diff(wanted)).unwrap_or(wanted)
        };
        let size = |bytes, is_asked| crate::Size { bytes: Bytes::new(bytes), is_asked };
        vec![size(near(900), false), size(self.memory_bytes, true), size(near(1100), false)]
    }
}

/// Reads an answer of `isotherm advise --format json`. An answer that recommends no size, or that depends on schemes which a daemon
/// carries out, cannot be verified by runs of the command alone.
///
/// # Errors
/// [`VerifyError::Advice`] with what is wrong.
pub fn stated(text: &str) -> Result<Stated, VerifyError> {
    let wrong =
        |what: &str| VerifyError::Advice(format!("the advice {what}; `isotherm advise --format json` writes it"));
    let answer: Value = serde_json::from_str(text).map_err(|error| wrong(&format!("is no JSON ({error})")))?;
    // Of several releases the first, which is that of this machine or the newest.
    let answer = answer.get("releases").and_then(|releases| releases.get(0)).unwrap_or(&answer);
    let best = answer.get("recommendation").ok_or_else(|| wrong("has no `recommendation`"))?;
    if best.is_null() {
        return Err(VerifyError::Advice(
            "the advice recommends no size, so there is nothing to verify; --memory SIZE tries one".to_owned(),
        ));
    }
    let (Some(policy), Some(memory_bytes)) = (best["candidate"].as_str(), best["memory_bytes"].as_u64()) else {
        return Err(wrong("has no `candidate` and `memory_bytes` in its `recommendation`"));
    };
    if !POLICIES.contains(&policy) {
        return Err(VerifyError::Advice(format!(
            "the advice is for `{policy}`, which needs a daemon: compare it by `isotherm daemon trial`"
        )));
    }
    let three = |value: &Value| ["median", "low", "high"].map(|name| value[name].as_u64().unwrap_or(0));
    let rows = answer["rows"].as_array().into_iter().flatten().filter(|row| row["candidate"] == policy);
    let mut rows: Vec<Predicted> = rows
        .filter(|row| row["runtime_ratio_ppm"].is_object())
        .map(|row| Predicted {
            memory_bytes: row["memory_bytes"].as_u64().unwrap_or(0),
            runtime_ratio_ppm: three(&row["runtime_ratio_ppm"]),
            major_faults: three(&row["major_faults"]),
        })
        .collect();
    // The recommendation's own figures come from more replays than its row.
    rows.retain(|row| row.memory_bytes != memory_bytes);
    rows.push(Predicted {
        memory_bytes,
        runtime_ratio_ppm: three(&best["runtime_ratio_ppm"]),
        major_faults: three(&best["major_faults"]),
    });
    rows.sort_by_key(|row| row.memory_bytes);
    rows.dedup_by_key(|row| row.memory_bytes);
    Ok(Stated {
        program: answer["program"].as_str().unwrap_or_default().to_owned(),
        policy: policy.to_owned(),
        memory_bytes,
        peak_bytes: answer["peak_bytes"].as_u64().unwrap_or(0),
        slowdown_ppm: answer["slowdown_allowed_ppm"].as_u64().map_or(1_050_000, |ppm| ppm + 1_000_000),
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"program": "sort", "peak_bytes": 1000000, "slowdown_allowed_ppm": 100000,
        "recommendation": {"candidate": "classic", "memory_bytes": 800000,
            "runtime_ratio_ppm": {"median": 1010000, "low": 1000000, "high": 1040000}, "major_faults": {"median": 5, "low": 4, "high": 9}},
        "rows": [
            {"candidate": "mglru", "memory_bytes": 720000, "runtime_ratio_ppm": {"median": 2, "low": 2, "high": 2}},
            {"candidate": "classic", "memory_bytes": 730000,
                "runtime_ratio_ppm": {"median": 1200000, "low": 1100000, "high": 1300000}, "major_faults": {"median": 70, "low": 60, "high": 80}},
            {"candidate": "classic", "memory_bytes": 800000, "runtime_ratio_ppm": {"median": 7, "low": 7, "high": 7}},
            {"candidate": "classic", "memory_bytes": 500000, "runtime_ratio_ppm": null}]}"#;

    #[test]
    fn a_recommendation_is_read_with_its_rows() {
        let stated = stated(ANSWER).unwrap();
        assert_eq!(
            (stated.program.as_str(), stated.policy.as_str(), stated.slowdown_ppm),
            ("sort", "classic", 1_100_000)
        );
        assert_eq!(stated.rows.iter().map(|row| row.memory_bytes).collect::<Vec<_>>(), [730_000, 800_000]);
        assert_eq!(stated.at(Bytes::new(800_000)).unwrap().runtime_ratio_ppm, [1_010_000, 1_000_000, 1_040_000]);
        assert_eq!(stated.at(Bytes::new(880_000)), None);
        let sizes: Vec<(u64, bool)> = stated.sizes().iter().map(|size| (size.bytes.get(), size.is_asked)).collect();
        assert_eq!(sizes, [(730_000, false), (800_000, true), (880_000, false)], "played sizes where they are close");
        let several = format!("{{\"releases\": [{ANSWER}]}}");
        assert_eq!(super::stated(&several).unwrap(), stated);
    }

    #[test]
    fn what_cannot_be_verified_is_said() {
        for (text, words) in [
            ("", "is no JSON"),
            ("{", "is no JSON"),
            ("[]", "no `recommendation`"),
            ("{}", "no `recommendation`"),
            (r#"{"recommendation": null}"#, "--memory SIZE"),
            (r#"{"recommendation": {}}"#, "no `candidate`"),
            (r#"{"recommendation": {"candidate": "classic", "memory_bytes": -1}}"#, "no `candidate`"),
            (r#"{"recommendation": {"candidate": "mglru + proactive", "memory_bytes": 1}}"#, "isotherm daemon trial"),
        ] {
            let error = stated(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        for end in 0..ANSWER.len() {
            assert!(stated(&ANSWER[..end]).is_err(), "{end}");
        }
    }
}
