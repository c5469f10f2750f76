//! Thrashing prevention of the Multi-Gen LRU: `min_ttl_ms` (docs/spec/mglru.md#s10). It is one value for the whole machine.

use super::settings::{Setting, standing, writes};
use super::{Counts, EngineError, Kernel, Line, Reach, Standing, System, SystemError, Trouble, Write};
use crate::config::{Config, TimeToLive};

/// Switch of the Multi-Gen LRU; its first bit is the whole of it.
const SWITCH: &str = "/sys/kernel/mm/lru_gen/enabled";
/// Path of the setting.
pub(in super::super) const MIN_TTL: &str = "/sys/kernel/mm/lru_gen/min_ttl_ms";

/// The kernel's thrashing prevention.
#[derive(Debug)]
pub(in super::super) struct Thrashing {
    spec: TimeToLive,
    settings: [Setting; 1],
    /// What it would do, as of the last writes.
    forecast: Option<String>,
}

impl Thrashing {
    pub(in super::super) fn new(spec: &TimeToLive) -> Self {
        let value = (spec.min_ttl.ns() / 1_000_000).to_string();
        let needs = "it needs Linux 6.1 or later with CONFIG_LRU_GEN";
        Self { spec: spec.clone(), settings: [Setting { path: MIN_TTL, value, needs }], forecast: None }
    }
}

/// Refuses a machine whose Multi-Gen LRU is switched off.
///
/// # Errors
/// [`EngineError::GenerationsOff`], with the value of the switch.
pub(in super::super) fn refuse_off(world: &mut dyn System) -> Result<(), EngineError> {
    let Some(value) = world.value(SWITCH)? else { return Ok(()) };
    let digits = value.strip_prefix("0x").unwrap_or(&value);
    match u64::from_str_radix(digits, 16) {
        Ok(bits) if bits & 1 == 0 => Err(EngineError::GenerationsOff(value)),
        _ => Ok(()),
    }
}

/// What a time to live would do now.
pub(in super::super) fn foretold(spec: &TimeToLive, world: &mut dyn System) -> String {
    match world.kill_facts() {
        Ok(facts) => facts.words(spec.min_ttl),
        Err(why) => format!("min-ttl = {}: its effect cannot be forecast: {why}", spec.min_ttl),
    }
}

impl Kernel for Thrashing {
    fn engine(&self) -> &'static str {
        "kernel: min_ttl_ms"
    }

    fn why(&self) -> String {
        format!(
            "`min-ttl` of generations.{}: kswapd has a process killed if all that it may evict is younger than {}",
            self.spec.section, self.spec.min_ttl
        )
    }

    fn targets(&self) -> Vec<String> {
        vec!["the whole machine".to_owned()]
    }

    /// A write stalls nothing. It is meant for times of pressure, so pressure does not hold it back.
    fn reach(&self) -> Reach {
        Reach::groups([])
    }

    fn follow(&mut self, _: &Config, _: &mut dyn System) -> Vec<Line> {
        Vec::new()
    }

    fn writes(&mut self, world: &mut dyn System) -> Result<Vec<Write>, EngineError> {
        let writes = writes(&self.settings, world)?;
        refuse_off(world)?;
        self.forecast = Some(foretold(&self.spec, world));
        Ok(writes)
    }

    fn forecast(&self) -> Option<String> {
        self.forecast.clone()
    }

    fn begins(&mut self, _: &mut dyn System) -> Result<(), EngineError> {
        Ok(())
    }

    fn standing(&mut self, world: &mut dyn System) -> Result<Standing, SystemError> {
        standing(&self.settings, world)
    }

    fn counts(&self, _: bool, _: &mut dyn System) -> Counts {
        let words = self.forecast.iter().map(|words| format!("when it was last looked at: {words}"));
        Counts { words: words.collect(), ..Counts::default() }
    }

    fn shortcoming(&self, _: &mut dyn System) -> Option<Trouble> {
        None
    }
}
