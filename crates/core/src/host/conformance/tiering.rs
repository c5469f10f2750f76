//! The contract of [`Tiering`].

use super::{Findings, Fixture, are_ordered};
use crate::host::{Area, HostError, MoveOrder, NodeId, PageMove, TargetId, Tiering};

/// Exercises it: areas are in order, pages have nodes, and moved pages are on their new node.
pub fn tiering(host: &mut dyn Tiering, fixture: &Fixture) -> Findings {
    let mut findings = Findings::default();
    let Fixture { process, mapped, hole, gone } = *fixture;
    let can = host.tiering_capabilities();
    findings.expect(can.nodes.windows(2).all(|pair| pair[0].node < pair[1].node), "nodes are not in order");
    let mut spaces = Vec::new();
    let listed = host.spaces(&mut spaces);
    findings.expect_offered(can.spaces, "spaces", &listed);
    if listed.is_ok() {
        findings.expect(spaces.windows(2).all(|pair| pair[0] < pair[1]), "spaces are not in order");
        findings.expect(spaces.contains(&process), "a process that lives is not among the spaces");
        findings
            .expect(!gone.is_some_and(|gone| spaces.contains(&gone)), "a process that has ended is among the spaces");
    }
    let mut areas: Vec<Area> = Vec::new();
    let reported = host.areas(process, &mut areas);
    findings.expect_offered(can.scan_accessed, "areas", &reported);
    let ranges: Vec<_> = areas.iter().map(|area| area.range).collect();
    findings.expect(are_ordered(&ranges), "areas are empty, overlap or do not ascend");
    if reported.is_ok() {
        let covers = |address: u64| ranges.iter().any(|range| (range.start..range.end).contains(&address));
        findings.expect(covers(mapped.start) && !covers(hole), "areas are not what is mapped");
    }
    let mut nodes = [None, Some(NodeId(0))];
    let answer = host.page_nodes(process, &[mapped.start, hole], &mut nodes);
    findings.expect_offered(can.page_nodes, "page_nodes", &answer);
    if answer.is_ok() {
        findings.expect(nodes[0].is_some(), "a present page is on no node");
        findings.expect(nodes[1].is_none(), "what is not mapped is on a node");
    }
    for node in &can.nodes {
        let memory = host.node_memory(node.node);
        findings.expect_offered(can.node_memory, "node_memory", &memory);
        if let Ok(memory) = memory {
            findings.expect(
                memory.is_some() == node.has_memory,
                "a node has memory, or has not, against what is told of it",
            );
            findings.expect(
                memory.is_none_or(|memory| memory.free <= memory.present),
                "a node has more free memory than memory",
            );
        }
    }
    moves(host, fixture, &mut findings);
    if let Some(gone) = gone {
        let mut areas = Vec::new();
        findings.expect_gone("areas", gone, &host.areas(gone, &mut areas));
        findings.expect(areas.is_empty(), "areas of a process that has ended are told");
        findings.expect_gone("page_nodes", gone, &host.page_nodes(gone, &[mapped.start], &mut [None]));
        findings.expect_gone("migrate", gone, &migrate(host, gone, &[mapped.start], NodeId(0)).map(|_| ()));
    }
    findings
}

/// A page is moved to each node that has memory; an unmapped page is not moved.
fn moves(host: &mut dyn Tiering, fixture: &Fixture, findings: &mut Findings) {
    let Fixture { process, mapped, hole, .. } = *fixture;
    let can = host.tiering_capabilities();
    for node in can.nodes.iter().filter(|node| node.has_memory) {
        let answer = migrate(host, process, &[mapped.start, hole], node.node);
        findings.expect_offered(can.migrate, "migrate", &answer);
        let Ok(results) = answer else { return };
        findings.expect(results[1] == PageMove::NotPresent, "what is not mapped was moved");
        let mut at = [None];
        let is_reported = host.page_nodes(process, &[mapped.start], &mut at).is_ok();
        let is_there = matches!(results[0], PageMove::Moved(_) | PageMove::SameNode);
        if is_reported {
            findings.expect(is_there == (at[0] == Some(node.node)), "a page is not where its move says");
        }
        if is_there {
            let again = migrate(host, process, &[mapped.start], node.node);
            let stays = again.is_ok_and(|results| results == [PageMove::SameNode]);
            findings.expect(stays, "a page that is on its node already is moved");
        }
    }
}

fn migrate(host: &mut dyn Tiering, target: TargetId, pages: &[u64], to: NodeId) -> Result<Vec<PageMove>, HostError> {
    let order = MoveOrder {
        pages,
        to,
        together: 1,
        keeps_high_watermark: false,
        only_active: false,
        leaves_shared: false,
        only_promotes: false,
    };
    // No call answers this by itself: it is left where nothing was written.
    let mut results = vec![PageMove::Dirty; pages.len()];
    host.migrate(target, &order, &mut results).map(|_| results)
}
