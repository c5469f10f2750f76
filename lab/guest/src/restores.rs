//! Kills a program that changes knobs, brings the machine into a state, and checks what a restore makes of it.

use isotherm_guest::job::Report;
use isotherm_guest::restoring::{RestoreState, Restored, Restores};
use std::time::{Duration, Instant};

use crate::draws::Draws;
use crate::sys;
use crate::tool::Tool;
use crate::{Reporter, knobs, live};

mod codes;
mod differences;
mod states;

use codes::wrong_codes;
use differences::{Knobs, Owned};
use states::{Place, State};

/// Does the job.
pub(crate) fn restore(job: &Restores, reporter: &mut Reporter) -> Result<(), String> {
    std::fs::create_dir_all("/tmp").map_err(|error| format!("/tmp: {error}"))?;
    let base = Instant::now();
    let started = job.workloads.iter().map(|workload| Ok(live::start(workload, base)?.0));
    let players: Vec<i32> = started.collect::<Result<_, String>>()?;
    let place = Place::new(&job.journal, &job.workloads)?;
    let tool = Tool { program: &job.program, environment: &job.environment };
    let mut run = Run { job, tool, place, before: knobs::read_all(), draws: Draws::new(job.seed) };
    for &state in &job.states {
        let mut restored = Restored { knobs_read: run.before.len() as u64, ..Restored::new(state) };
        for round in 0..job.moments {
            run.moment(state, round, &mut restored)
                .map_err(|why| format!("{}, moment {round}: {why}", state.name()))?;
        }
        reporter.say(&Report::Restored(restored));
    }
    players.into_iter().try_for_each(sys::kill).map_err(|error| format!("kill: {error}"))
}

/// What all moments share.
struct Run<'a> {
    job: &'a Restores,
    tool: Tool<'a>,
    place: Place,
    before: Knobs,
    draws: Draws,
}

impl Run<'_> {
    fn moment(&mut self, kind: RestoreState, round: u64, restored: &mut Restored) -> Result<(), String> {
        self.place.renew(&self.job.history, &mut self.draws)?;
        let mut state = State::new(kind, round);
        let is_changed = self.killed(&mut state)?;
        let at_kill = knobs::read_all();
        if !state.is_made() {
            state.make(&self.place, &mut self.draws)?;
        }
        let (job, tool) = (self.job, self.tool);
        let owned = Owned::in_journal(&state.journal(&self.place)?, state.group_file(&self.place));
        let expected = state.expected(&self.before, &at_kill, &self.place);
        let mut found = differences::Found::default();
        let mut ends = Vec::new();
        for codes in [&mut restored.codes, &mut restored.codes_again] {
            let end = tool.run(&job.restore)?;
            *codes.entry(end.code.map_or("signal".to_owned(), |code| code.to_string())).or_default() += 1;
            found.compare(&owned, &expected, &knobs::read_all());
            ends.push(end);
        }
        state.lift(&self.place)?;
        ends.push(tool.run(&job.restore)?);
        found.compare(&owned, &state.expected(&self.before, &self.before, &self.place), &knobs::read_all());
        let wrong = wrong_codes(&ends, kind != RestoreState::OtherBoot);
        restored.codes_wrong.extend(wrong.map(|why| format!("{}, moment {round}: {why}", kind.name())));

        state.clean(&self.place)?;
        differences::mend(&self.before, &knobs::read_all());
        restored.moments += 1;
        restored.changed_when_killed += u64::from(is_changed);
        restored.as_before += u64::from(found.ours.is_empty());
        restored.others_untouched += u64::from(found.others.is_empty());
        let lines = found.ours.into_iter().chain(found.others);
        restored.knobs_changed.extend(lines.map(|line| format!("{}, moment {round}: {line}", kind.name())));
        Ok(())
    }

    /// Changes knobs, and kills what changes more of them. Some states are made in between. Returns whether it had changed any.
    fn killed(&mut self, state: &mut State) -> Result<bool, String> {
        let end = self.tool.run(&self.job.before)?;
        if end.code != Some(0) {
            return Err(format!("{} ended with {:?}: {}", self.job.before.join(" "), end.code, end.stderr.trim()));
        }
        let before = knobs::read_all();
        let after_ms = self.moment_ms(state.round);
        let mut child = self.tool.start(&self.job.killed)?;
        let first_ms = if state.is_early() { self.draws.below(after_ms) } else { after_ms };
        std::thread::sleep(Duration::from_millis(first_ms));
        // A knob of the group that is made again is not counted.
        let mut is_changed = false;
        if state.is_early() {
            is_changed = knobs::read_all() != before;
            state.make(&self.place, &mut self.draws)?;
            std::thread::sleep(Duration::from_millis(after_ms - first_ms));
        }
        child.kill().and_then(|()| child.wait()).map_err(|error| format!("kill: {error}"))?;
        Ok(is_changed || (!state.is_early() && knobs::read_all() != before))
    }

    fn moment_ms(&mut self, round: u64) -> u64 {
        let (first, last) = self.job.busy_ms;
        if round.is_multiple_of(2) {
            self.draws.below(self.job.longest_ms)
        } else {
            first + self.draws.below(last.saturating_sub(first))
        }
    }
}
