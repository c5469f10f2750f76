//! The environment of the loop, with its calls and answers on a tape.

use super::Tape;
use crate::changes::Refusal;
use crate::config::{Config, Target};
use crate::control_loop::{
    AuditError, GroupStall, KillFacts, Knobs, Line, Log, Member, NodeFree, Running, Status, System, SystemError,
};
use isotherm_core::host::{
    AddressRange, Ageing, Answer, Eviction, Gauge, GaugeCapabilities, Gauging, GenerationCapabilities, Generational,
    HostError, Listing, TargetId,
};
use isotherm_core::vocabulary::Metric;
use isotherm_units::{Bytes, Clock, Duration, Instant, Meter, Woken};
use serde::{Deserialize, Serialize};

/// A value whose calls go through a tape.
#[derive(Debug)]
pub struct Taped<'a, T: ?Sized> {
    pub(super) inner: &'a mut T,
    pub(super) tape: Tape,
}

impl<'a, T: ?Sized> Taped<'a, T> {
    pub fn new(inner: &'a mut T, tape: &Tape) -> Self {
        Self { inner, tape: tape.clone() }
    }
}

/// Error of a replay that is over.
const OVER: &str = "the tape is over";

fn over<T, E: From<String>>() -> Result<T, E> {
    Err(OVER.to_owned().into())
}

impl<W: System + ?Sized> System for Taped<'_, W> {
    fn groups(&mut self, pattern: &str) -> Result<Vec<String>, SystemError> {
        self.tape.call("groups", pattern, || self.inner.groups(pattern), over)
    }

    fn members(&mut self, group: &str) -> Result<Vec<Member>, SystemError> {
        self.tape.call("members", group, || self.inner.members(group), over)
    }

    fn processes(&mut self, target: &Target) -> Result<Vec<Running>, SystemError> {
        self.tape.call("processes", target, || self.inner.processes(target), over)
    }

    fn largest(&mut self, processes: &[u32], most: usize) -> Vec<u32> {
        self.tape.call("largest", (processes, most), || self.inner.largest(processes, most), Vec::new)
    }

    fn group_file(&mut self, group: &str, file: &str) -> Result<String, SystemError> {
        self.tape.call("group-file", (group, file), || self.inner.group_file(group, file), over)
    }

    fn physical_memory(&mut self) -> Result<Vec<AddressRange>, SystemError> {
        let ranges = || {
            let ranges = self.inner.physical_memory()?;
            Ok(ranges.into_iter().map(|range| (range.start, range.end)).collect())
        };
        let ranges: Vec<(u64, u64)> = self.tape.call("physical-memory", (), ranges, over::<_, SystemError>)?;
        Ok(ranges.into_iter().map(|(start, end)| AddressRange::new(start, end)).collect())
    }

    fn command(&mut self, path: &str, word: &str) -> Result<(), SystemError> {
        self.tape.call("command", (path, word), || self.inner.command(path, word), over)
    }

    fn guaranteed(&mut self, path: &str, with_below: bool) -> Option<String> {
        let over = || Some(path.to_owned());
        self.tape.call("guaranteed", (path, with_below), || self.inner.guaranteed(path, with_below), over)
    }

    fn full_stall(&mut self) -> Option<Duration> {
        let ns = self.tape.call("full-stall", (), || self.inner.full_stall().map(Duration::ns), || None);
        ns.map(Duration::from_ns)
    }

    fn full_stall_of(&mut self, group: &str) -> Option<Duration> {
        let make = || self.inner.full_stall_of(group).map(Duration::ns);
        self.tape.call("full-stall-of", group, make, || None).map(Duration::from_ns)
    }

    fn group_stalls(&mut self) -> Vec<GroupStall> {
        self.tape.call("group-stalls", (), || self.inner.group_stalls(), Vec::new)
    }

    fn kill_facts(&mut self) -> Result<KillFacts, SystemError> {
        self.tape.call("kill-facts", (), || self.inner.kill_facts(), over)
    }

    fn swap_free(&mut self) -> Option<Bytes> {
        self.tape.call("swap-free", (), || self.inner.swap_free().map(Bytes::get), || None).map(Bytes::new)
    }

    fn value(&mut self, path: &str) -> Result<Option<String>, SystemError> {
        self.tape.call("value", path, || self.inner.value(path), over)
    }

    fn counters(&mut self, names: &[&str]) -> Result<Vec<Option<u64>>, SystemError> {
        self.tape.call("counters", names, || self.inner.counters(names), over)
    }

    fn memory_tiers(&mut self) -> Result<Vec<Vec<u32>>, SystemError> {
        self.tape.call("memory-tiers", (), || self.inner.memory_tiers(), over)
    }

    fn fragmentation(&mut self) -> Result<Vec<NodeFree>, SystemError> {
        self.tape.call("fragmentation", (), || self.inner.fragmentation(), over)
    }

    fn is_there(&mut self, path: &str) -> bool {
        self.tape.call("there", path, || self.inner.is_there(path), || false)
    }

    fn cpu_of(&mut self, process: u32) -> Option<Duration> {
        let ns = self.tape.call("cpu-of", process, || self.inner.cpu_of(process).map(Duration::ns), || None);
        ns.map(Duration::from_ns)
    }

    fn resident(&mut self) -> Option<Bytes> {
        self.tape.call("resident", (), || self.inner.resident().map(Bytes::get), || None).map(Bytes::new)
    }

    fn configuration(&mut self) -> Result<Config, SystemError> {
        self.tape.call("configuration", (), || self.inner.configuration(), over)
    }

    fn has_to_end(&mut self) -> bool {
        self.tape.call("has-to-end", (), || self.inner.has_to_end(), || true)
    }
}

impl<K: Knobs + ?Sized> Knobs for Taped<'_, K> {
    fn set(&mut self, section: &str, path: &str, value: &str) -> Result<(), Refusal> {
        self.tape.call("set", (section, path, value), || self.inner.set(section, path, value), over)
    }

    fn set_within(&mut self, section: &str, path: &str, value: &str) -> Result<(), Refusal> {
        self.tape.call("set-within", (section, path, value), || self.inner.set_within(section, path, value), over)
    }

    fn set_often(&mut self, section: &str, path: &str, value: u64) -> Result<(), Refusal> {
        self.tape.call("set-often", (section, path, value), || self.inner.set_often(section, path, value), over)
    }

    fn forget(&mut self, section: &str) -> Result<(), Refusal> {
        self.tape.call("forget", section, || self.inner.forget(section), over)
    }

    fn put_back(&mut self, sections: &[String]) -> Result<Option<String>, Refusal> {
        self.tape.call("put-back", sections, || self.inner.put_back(sections), over)
    }
}

impl<C: Clock + ?Sized> Clock for Taped<'_, C> {
    fn now(&self) -> Instant {
        let since = || self.inner.now().since(Instant::START).ns();
        Instant::START + Duration::from_ns(self.tape.call("now", (), since, || 0))
    }

    /// A replay ends with its tape.
    fn sleep_until(&mut self, until: Instant) -> Woken {
        let ns = until.since(Instant::START).ns();
        if self.tape.is_over() {
            return Woken::Stopped;
        }
        self.tape.call("sleep", ns, || self.inner.sleep_until(until), || Woken::Stopped)
    }
}

impl<M: Meter + ?Sized> Meter for Taped<'_, M> {
    fn spent(&mut self) -> Duration {
        Duration::from_ns(self.tape.call("spent", (), || self.inner.spent().ns(), || 0))
    }

    fn total(&mut self) -> Duration {
        Duration::from_ns(self.tape.call("total", (), || self.inner.total().ns(), || 0))
    }
}

/// A replay must produce the same lines, so each is compared in full.
impl<L: Log + ?Sized> Log for Taped<'_, L> {
    fn line(&mut self, line: &Line) -> Result<(), AuditError> {
        self.tape.call("line", line, || self.inner.line(line), over)
    }

    fn status(&mut self, status: &Status) {
        self.inner.status(status);
    }
}

/// A host's answers, in the tape's format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Told {
    Done(u64),
    Partly(u64),
    NotHere(String),
    Failed(String),
}

/// A host's errors, in the tape's format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Refused {
    Gone(u32),
    NotHere(String),
    Failed(String),
}

impl Refused {
    pub(super) fn of(error: HostError) -> Self {
        match error {
            HostError::Gone(target) => Self::Gone(target.0),
            HostError::NotHere(what) => Self::NotHere(what.to_owned()),
            HostError::Failed(why) => Self::Failed(why),
        }
    }

    pub(super) fn over<T>() -> Result<T, Self> {
        Err(Self::Failed(OVER.to_owned()))
    }

    pub(super) fn error(self, tape: &Tape) -> HostError {
        match self {
            Self::Gone(target) => HostError::Gone(TargetId(target)),
            Self::NotHere(what) => HostError::NotHere(tape.constant(what)),
            Self::Failed(why) => HostError::Failed(why),
        }
    }
}

impl Told {
    fn of(answer: Answer) -> Self {
        match answer {
            Answer::Done { bytes } => Self::Done(bytes),
            Answer::Partly { bytes } => Self::Partly(bytes),
            Answer::NotHere(what) => Self::NotHere(what.to_owned()),
            Answer::Failed(why) => Self::Failed(why),
        }
    }

    fn answer(self, tape: &Tape) -> Answer {
        match self {
            Self::Done(bytes) => Answer::Done { bytes },
            Self::Partly(bytes) => Answer::Partly { bytes },
            Self::NotHere(what) => Answer::NotHere(tape.constant(what)),
            Self::Failed(why) => Answer::Failed(why),
        }
    }
}

fn words<T: ToString>(orders: &[T]) -> Vec<String> {
    orders.iter().map(ToString::to_string).collect()
}

impl<H: Generational + ?Sized> Generational for Taped<'_, H> {
    fn generation_capabilities(&mut self) -> GenerationCapabilities {
        let told = || {
            let GenerationCapabilities { read, age, evict, missing } = self.inner.generation_capabilities();
            (read, age, evict, missing.map(str::to_owned))
        };
        let (read, age, evict, missing) =
            self.tape.call("generation-capabilities", (), told, || (false, false, false, None));
        GenerationCapabilities { read, age, evict, missing: missing.map(|words| self.tape.constant(words)) }
    }

    fn read_generations(&mut self, out: &mut Vec<Listing>) -> Result<(), HostError> {
        let read = || {
            let mut listings = Vec::new();
            self.inner.read_generations(&mut listings).map_err(Refused::of)?;
            Ok(listings)
        };
        match self.tape.call("read-generations", (), read, Refused::over) {
            Ok(mut listings) => {
                out.append(&mut listings);
                Ok(())
            }
            Err(error) => Err(error.error(&self.tape)),
        }
    }

    fn age_generations(&mut self, orders: &[Ageing], answers: &mut Vec<Answer>) {
        let make = || {
            let mut answers = Vec::new();
            self.inner.age_generations(orders, &mut answers);
            answers.into_iter().map(Told::of).collect()
        };
        let otherwise = || orders.iter().map(|_| Told::Failed(OVER.to_owned())).collect::<Vec<_>>();
        let told = self.tape.call("age", words(orders), make, otherwise);
        answers.extend(told.into_iter().map(|told| told.answer(&self.tape)));
    }

    fn evict_generations(&mut self, orders: &[Eviction], answers: &mut Vec<Answer>) {
        let make = || {
            let mut answers = Vec::new();
            self.inner.evict_generations(orders, &mut answers);
            answers.into_iter().map(Told::of).collect()
        };
        let otherwise = || orders.iter().map(|_| Told::Failed(OVER.to_owned())).collect::<Vec<_>>();
        let told = self.tape.call("evict", words(orders), make, otherwise);
        answers.extend(told.into_iter().map(|told| told.answer(&self.tape)));
    }
}

impl<H: Gauging + ?Sized> Gauging for Taped<'_, H> {
    fn gauge_capabilities(&self, target: TargetId) -> GaugeCapabilities {
        let told = || {
            let GaugeCapabilities { metrics, free_mem_rate } = self.inner.gauge_capabilities(target);
            (metrics, free_mem_rate)
        };
        let (metrics, free_mem_rate): (Vec<Metric>, bool) =
            self.tape.call("gauge-capabilities", target.0, told, || (Vec::new(), false));
        GaugeCapabilities { metrics, free_mem_rate }
    }

    fn gauges(&mut self, gauges: &[Gauge], values: &mut [Option<u64>]) -> Result<(), HostError> {
        let asked: Vec<String> = gauges.iter().map(|gauge| format!("{gauge:?}")).collect();
        let read = || {
            let mut values = vec![None; gauges.len()];
            self.inner.gauges(gauges, &mut values).map_err(Refused::of)?;
            Ok(values)
        };
        let told: Vec<Option<u64>> =
            self.tape.call("gauges", asked, read, Refused::over).map_err(|error| error.error(&self.tape))?;
        for (value, told) in values.iter_mut().zip(told) {
            *value = told;
        }
        Ok(())
    }

    fn memcg(&self, path: &str) -> Option<u64> {
        self.tape.call("memcg", path, || self.inner.memcg(path), || None)
    }
}
