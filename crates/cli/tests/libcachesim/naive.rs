//! The definitions of `docs/mechanism/reclaim.md#baselines`, literally, without regard for speed.

use std::collections::VecDeque;

use super::requests::Requests;

/// Whether each request misses under `policy` with memory for `capacity` pages.
pub(crate) fn misses(requests: &Requests, policy: &str, capacity: usize) -> Vec<bool> {
    let next_uses = requests.next_uses();
    let mut resident: Vec<Option<Page>> = vec![None; usize::try_from(requests.span()).unwrap()];
    let mut order: VecDeque<usize> = VecDeque::new(); // oldest first
    let mut missed = Vec::with_capacity(requests.pages.len());
    for (&page, next_use) in requests.pages.iter().zip(&next_uses) {
        let page = usize::try_from(page).unwrap();
        let next_use = next_use.unwrap_or(usize::MAX);
        missed.push(resident[page].is_none());
        if let Some(hit) = &mut resident[page] {
            *hit = Page { referenced: true, next_use };
            if policy == "lru" {
                order.retain(|&other| other != page);
                order.push_back(page);
            }
            continue;
        }
        if order.len() == capacity {
            let victim = match policy {
                "lru" | "fifo" => 0,
                "clock" => second_chance(&mut order, &mut resident),
                "opt" => farthest(&order, &resident),
                other => panic!("no policy {other}"),
            };
            let victim = order.remove(victim).unwrap();
            resident[victim] = None;
        }
        order.push_back(page);
        resident[page] = Some(Page { referenced: false, next_use });
    }
    missed
}

#[derive(Clone, Copy)]
struct Page {
    referenced: bool,
    next_use: usize,
}

fn second_chance(order: &mut VecDeque<usize>, resident: &mut [Option<Page>]) -> usize {
    while let Some(page) = resident[order[0]].as_mut().filter(|page| page.referenced) {
        page.referenced = false;
        order.rotate_left(1);
    }
    0
}

fn farthest(order: &VecDeque<usize>, resident: &[Option<Page>]) -> usize {
    let next_use = |index: &usize| resident[order[*index]].unwrap().next_use;
    (0..order.len()).max_by_key(next_use).unwrap()
}

#[test]
fn worked_example_of_baselines_md() {
    let one_round = [1, 2, 3, 1, 4, 1, 2, 5, 3, 1, 2, 4, 5, 1];
    let requests = Requests { name: "example", pages: one_round.repeat(3) };
    let table = [(2, [37, 37, 35, 28]), (3, [34, 37, 31, 20]), (4, [20, 17, 20, 12])];
    for (capacity, expected) in table {
        for (policy, expected) in ["lru", "fifo", "clock", "opt"].into_iter().zip(expected) {
            let count = misses(&requests, policy, capacity).into_iter().filter(|&missed| missed).count();
            assert_eq!(count, expected, "{policy} with {capacity} pages");
        }
    }
}
