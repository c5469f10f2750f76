//! The daemon's files in `/sys/kernel/mm/kmmscand`: values that may be written, and the text that is read (docs/spec/promotion.md#s1-3).

use super::error::PromotionError;
use super::throttle::SCALE_MAX;
use super::{Promotion, check_target_node};
use crate::OutOfRange;
use crate::host::{NodeId, TargetId};
use isotherm_units::{Duration, Instant};

/// The names of the knobs.
pub const KNOBS: &[&str] = &["scan_enabled", "scan_sleep_ms", "mm_scan_period_ms", "mms_to_scan", "target_node"];

impl Promotion {
    /// Text of a knob, with the line's end.
    ///
    /// # Errors
    /// ENOENT: no such knob.
    pub fn knob(&self, name: &str) -> Result<String, PromotionError> {
        let value = match known(name)? {
            "scan_enabled" => u64::from(self.config.scan_enabled),
            "scan_sleep_ms" => self.limits.sleep_ms,
            "mm_scan_period_ms" => self.config.period_ms(),
            "mms_to_scan" => u64::from(self.config.mms_to_scan),
            _ => u64::from(self.config.target_node),
        };
        Ok(format!("{value}\n"))
    }

    /// Writes a knob: a decimal number of 32 bits, with or without the line's end. Any knob wakes the daemon.
    ///
    /// `mm_scan_period_ms` is for spaces that come later, and is brought within its bounds rather than refused, as the kernel does.
    ///
    /// # Errors
    /// EINVAL or ENOENT, with the allowed values; then nothing has changed.
    pub fn set_knob(&mut self, name: &str, text: &str, now: Instant) -> Result<(), PromotionError> {
        let knob = known(name)?;
        let refuse = |allowed: &str| PromotionError::Knob {
            knob,
            text: text.trim_end_matches('\n').to_owned(),
            allowed: allowed.to_owned(),
        };
        let value = unsigned(text).ok_or_else(|| refuse("a decimal number from 0 to 4294967295"))?;
        match knob {
            "scan_enabled" if value > 1 => return Err(refuse("0 or 1")),
            "scan_enabled" => self.config.scan_enabled = value == 1,
            "scan_sleep_ms" => {
                self.config.scan_sleep = Some(Duration::from_ms(u64::from(value)));
                self.limits.sleep_ms = u64::from(value);
            }
            "mm_scan_period_ms" => {
                let [least, _, most] = self.limits.period_ms;
                self.config.mm_scan_period = Some(Duration::from_ms(u64::from(value).clamp(least, most)));
            }
            "mms_to_scan" => self.config.mms_to_scan = value,
            _ => {
                check_target_node(NodeId(value), &self.host_has)
                    .map_err(|why| refuse(&format!("a node of the top tier with memory ({why})")))?;
                self.config.target_node = value;
            }
        }
        self.scanner.round_at = now;
        Ok(())
    }

    /// Sets the scale of a process, as `prctl` does: 0 ends its scans, and from patch version 3 on 2 to 10 make them rarer.
    ///
    /// # Errors
    /// A mode without scales, a scale above 10, or a space that is not here; then nothing has changed.
    pub fn set_scale(&mut self, target: TargetId, scale: u32) -> Result<(), PromotionError> {
        if !self.limits.has_scale {
            let mode = self.config.mode().entry().name;
            return Err(PromotionError::NotHere {
                mode,
                needs: "scales of processes, which modes `v1` and later have",
            });
        }
        if scale > SCALE_MAX {
            return Err(OutOfRange::new("scale", scale, format!("0 to {SCALE_MAX}")).into());
        }
        let slot = self.keys.get(&target).and_then(|key| self.slots.get_mut(key));
        let slot = slot.ok_or(PromotionError::Space { target, why: "is not being scanned" })?;
        slot.scale = scale;
        Ok(())
    }
}

fn known(name: &str) -> Result<&'static str, PromotionError> {
    let knob = KNOBS.iter().find(|knob| **knob == name);
    knob.copied().ok_or_else(|| PromotionError::UnknownKnob { name: name.to_owned(), allowed: KNOBS.join(", ") })
}

/// As `kstrtouint` with base 10: one sign `+` and one line's end are allowed.
fn unsigned(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('\n').unwrap_or(text);
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}
