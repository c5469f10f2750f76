//! The simulated machine as a cache: one thread, private memory, a group with a limit in pages.

use std::sync::{Arc, Mutex};

use isotherm_kernel::cgroup::{CgroupId, Knob, Limit};
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_sim::machine::{Ending, MachineBuilder, MachineConfig};
use isotherm_units::access::{
    After, Batch, Future, Mapping, Owner, Process, Program, Run, Stream, StreamError, Thread, ThreadStart, Timing,
};
use isotherm_units::{Bytes, Instant, PageRange, Pages};

use super::requests::Requests;

/// First virtual page of the memory; not 0, so that mistaking a page number for an offset is detected.
const BASE: u64 = 0x5_5555;

/// Whether each request misses under `policy` in a group of `capacity` pages.
///
/// The machine does not report which access faulted, but the clock shows it: in a recording an access itself costs no
/// time, so the thread's clock advances between two requests exactly when the first one faulted.
pub(crate) fn misses(requests: &Requests, policy: &str, capacity: usize) -> Vec<bool> {
    let config = MachineConfig { page_cluster: 0, readahead: Bytes::ZERO, ..MachineConfig::default() };
    let mut builder = MachineBuilder::new(&config, policy_by_name(policy).unwrap().build()).unwrap();
    let group = builder.add_cgroup(CgroupId::ROOT, "limited").unwrap();
    builder.set(group, Knob::Max, Limit::At(Pages::new(u64::try_from(capacity).unwrap())));

    let asked_at = Arc::new(Mutex::new(Vec::new()));
    let program = builder.add_program(program(requests, asked_at.clone()), group).unwrap();
    builder.start_at(program, Instant::START);
    let outcome = builder.build().run(Instant::from_ns(u64::MAX)).unwrap();
    assert_eq!(outcome.programs[program.0].ending, Ending::Finished, "{:?}", outcome.incidents);
    assert!(outcome.cgroup("/limited").unwrap().peak_pages <= u64::try_from(capacity).unwrap());

    let asked_at: Vec<u64> = std::mem::take(&mut asked_at.lock().unwrap());
    asked_at.windows(2).map(|pair| pair[0] < pair[1]).collect()
}

fn program(requests: &Requests, asked_at: Arc<Mutex<Vec<u64>>>) -> Program {
    let memory = PageRange::at(BASE, requests.span());
    let future = Future::build::<()>(vec![(Owner::Process(0), memory)], |each| {
        requests.pages.iter().for_each(|page| each(Owner::Process(0), BASE + page));
        Ok(())
    });
    let stream = OneByOne { pages: requests.pages.clone().into_iter(), asked_at };
    Program {
        name: requests.name.to_owned(),
        files: Vec::new(),
        processes: vec![Process {
            name: requests.name.to_owned(),
            forked_from: None,
            layout: vec![Mapping::anonymous(memory)],
        }],
        threads: vec![Thread { process: 0, start: ThreadStart::WithProgram, stream: Box::new(stream) }],
        timing: Timing::Recorded,
        future: Some(future.unwrap().unwrap()),
    }
}

/// Returns one request for each batch, and notes the time of the call.
struct OneByOne {
    pages: std::vec::IntoIter<u64>,
    asked_at: Arc<Mutex<Vec<u64>>>,
}

impl Stream for OneByOne {
    fn next_batch(&mut self, now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        self.asked_at.lock().unwrap().push(now.ns());
        match self.pages.next() {
            Some(page) => {
                batch.runs.push(Run::write(BASE + page, 1));
                Ok(After::Continue)
            }
            None => Ok(After::Finish),
        }
    }
}
