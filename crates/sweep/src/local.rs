//! Runs played by processes of this machine.
//!
//! Each process plays one run after the other. A process that ends in the middle of a run (killed for lack of memory, for example) is
//! replaced and its run is played again. A run that ended three processes has failed.

use crate::job::Answer;
use crate::wire::{receive, send};
use crate::{Dataset, Plan, SweepError};
use isotherm_scenario::Progress;
use std::collections::VecDeque;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};

/// Processes that a run may end before it counts as failed.
const ATTEMPTS_MAX: u32 = 3;

/// The program that serves jobs on its standard input, with [`serve`](crate::serve()).
#[derive(Clone, Debug)]
pub struct Server {
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

/// Totals of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Swept {
    /// Runs played.
    pub played: usize,
    /// Runs played that failed.
    pub failed: usize,
    /// Time of all runs together, seconds.
    pub seconds: f64,
    /// Processes that ended in the middle of a run.
    pub lost: u32,
}

struct Process {
    child: Child,
    jobs: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    fn start(server: &Server) -> Result<Self, SweepError> {
        let mut command = Command::new(&server.program);
        command.args(&server.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.spawn().map_err(|source| SweepError::Start { program: server.program.clone(), source })?;
        let (jobs, answers) = (child.stdin.take(), child.stdout.take());
        let (Some(jobs), Some(answers)) = (jobs, answers) else {
            return Err(SweepError::Wire("a process without standard input and output".into()));
        };
        Ok(Self { child, jobs, answers: BufReader::new(answers) })
    }

    /// `None` if the process has ended.
    fn play(&mut self, plan: &Plan, number: usize) -> Option<Answer> {
        send(&mut self.jobs, &plan.job(number)).ok()?;
        receive(&mut self.answers).ok()?
    }

    /// How the process ended, as text.
    fn ended(mut self) -> String {
        drop((self.jobs, self.answers));
        self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

/// Plays `numbers` of the plan in `processes` processes, and keeps the answers.
///
/// # Errors
/// A process cannot be started, or an answer cannot be kept. Earlier answers stay.
pub fn sweep(
    plan: &Plan,
    dataset: &mut Dataset,
    numbers: &[usize],
    (server, processes): (&Server, usize),
    progress: &dyn Progress,
) -> Result<Swept, SweepError> {
    progress.planned(numbers.iter().map(|&number| plan.runs[number].cost).sum());
    let queue = Mutex::new(numbers.iter().copied().collect::<VecDeque<usize>>());
    let mut swept = Swept::default();
    let (sender, receiver) = mpsc::sync_channel::<Result<(Answer, u32), SweepError>>(processes);
    std::thread::scope(|scope| {
        for _ in 0..processes.clamp(1, numbers.len().max(1)) {
            let (sender, queue) = (sender.clone(), &queue);
            scope.spawn(move || {
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let mut process = None;
                while let Some(number) = next().filter(|_| !progress.is_stopped()) {
                    let answer = play_in(&mut process, server, plan, number);
                    let is_over = answer.is_err();
                    if sender.send(answer).is_err() || is_over {
                        break;
                    }
                }
                // Its end of the pipe is closed: it ends by itself.
                process.map(Process::ended);
            });
        }
        drop(sender);
        for answer in &receiver {
            let kept = answer.and_then(|(answer, lost)| {
                swept.played += 1;
                swept.failed += usize::from(answer.rows.is_empty());
                swept.seconds += answer.seconds;
                swept.lost += lost;
                progress.done(plan.runs[answer.number].cost);
                dataset.keep(plan, &answer)
            });
            if let Err(error) = kept {
                // Nothing new is begun; runs under way are waited for.
                queue.lock().unwrap_or_else(PoisonError::into_inner).clear();
                drop(receiver);
                return Err(error);
            }
        }
        Ok(swept)
    })
}

/// The answer, and the processes that were lost over it.
fn play_in(
    process: &mut Option<Process>,
    server: &Server,
    plan: &Plan,
    number: usize,
) -> Result<(Answer, u32), SweepError> {
    let mut why = String::new();
    for lost in 0..ATTEMPTS_MAX {
        let mut running = match process.take() {
            Some(running) => running,
            None => Process::start(server)?,
        };
        if let Some(answer) = running.play(plan, number) {
            *process = Some(running);
            return Ok((answer, lost));
        }
        why = running.ended();
    }
    let error = format!("it ended {ATTEMPTS_MAX} processes that played it, the last with {why}");
    Ok((Answer::failed(number, 0.0, error), ATTEMPTS_MAX))
}
