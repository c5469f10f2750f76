//! The contract of [`Gauging`].

use super::{Findings, Fixture};
use crate::host::{Gauge, Gauging, HostError, Metric, NodeId};

/// A node that no machine has.
const NO_NODE: NodeId = NodeId(u32::MAX);

/// Exercises it: numbers of one call are of one moment, free memory is part of all, an absent node or group has no
/// number.
pub fn gauging(host: &mut dyn Gauging, fixture: &Fixture) -> Findings {
    let mut findings = Findings::default();
    let can = host.gauge_capabilities(fixture.process);
    for metric in &can.metrics {
        let gauges = gauges_of(*metric);
        let mut values = vec![None; gauges.len()];
        let answer = host.gauges(&gauges, &mut values);
        findings
            .expect(answer.is_ok(), &format!("`{}` is among the capabilities, and is not read", metric.entry().name));
    }
    let all = [Gauge::FreeBytes(None), Gauge::TotalBytes(None), Gauge::FreeBytes(None)];
    let mut values = [None; 3];
    let answer = host.gauges(&all, &mut values);
    findings.expect_offered(can.free_mem_rate, "free-mem-rate", &answer);
    if answer.is_ok() {
        findings.expect(values[0] == values[2], "a number that was asked for twice at one moment differs");
        findings.expect(values[0] <= values[1], "there is more free memory than memory");
        findings.expect(values[1].is_some_and(|total| total > 0), "a system has no memory");
        let mut nothing = [Some(1)];
        let answer = host.gauges(&[Gauge::TotalBytes(Some(NO_NODE))], &mut nothing);
        findings.expect(answer.is_err() || nothing[0].is_none(), "a node that is not there has memory");
    }
    findings.expect(host.memcg("/no/such/group").is_none(), "a group that is not there has a number");
    let mut by_node = Vec::new();
    let reported = host.node_bytes(fixture.process, &[fixture.mapped], &mut by_node);
    findings.expect(reported.is_ok() || by_node.is_empty(), "bytes by node that failed have left something behind");
    if matches!(reported, Err(HostError::NotHere(_))) {
        let metric = Metric::NodeEligibleMemBp;
        findings.expect(
            !can.metrics.contains(&metric),
            "`node-eligible-mem-bp` is offered for a target without bytes by node",
        );
    }
    findings
}

fn gauges_of(metric: Metric) -> Vec<Gauge> {
    let node = NodeId(0);
    match metric {
        Metric::UserInput | Metric::NodeEligibleMemBp | Metric::NodeMemcgUsedBp | Metric::NodeMemcgFreeBp => Vec::new(),
        Metric::SomeMemPsiUs => vec![Gauge::StallSomeUs],
        Metric::NodeMemUsedBp | Metric::NodeMemFreeBp => {
            vec![Gauge::TotalBytes(Some(node)), Gauge::FreeBytes(Some(node))]
        }
        Metric::ActiveMemBp | Metric::InactiveMemBp => vec![Gauge::ActiveBytes, Gauge::InactiveBytes],
    }
}
