//! Access patterns that a guest plays while a kernel's monitor watches, and that the simulated machine plays in the same way.
//!
//! A pattern is a list of [`Part`]s of an arena, and time is counted in *passes*: the pages that a pass touches depend only on its number,
//! so the times of passes determine the pages used. All random numbers are derived from the pattern.

use serde::{Deserialize, Serialize};

/// Pages touched, pass by pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// Pages of the arena. All are touched once before the first pass.
    pub pages: u32,
    /// Parts of each pass, in order.
    pub parts: Vec<Part>,
}

/// A range of the arena and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// First page, counted from the arena's first page.
    pub first: u32,
    /// Number of pages; never 0.
    pub pages: u32,
    pub motion: Motion,
}

/// How a part is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Motion {
    /// All pages in each `passes`-th pass.
    Every {
        /// 1: in each.
        passes: u32,
    },
    /// Each `step`-th page, in each pass.
    Strided {
        /// Step in pages.
        step: u32,
    },
    /// The next `per_pass` pages, wrapping around.
    Sweep {
        /// Pages a pass.
        per_pass: u32,
    },
    /// A window that stays for some passes, then jumps forward by `step`, wrapping around.
    Hop {
        /// Pages of the window.
        window: u32,
        /// Passes at one place.
        passes: u32,
        /// Pages that it jumps.
        step: u32,
    },
    /// `draws` single pages, uniformly distributed over the part.
    Uniform {
        /// Draws a pass.
        draws: u32,
    },
    /// `draws` single pages, with a probability that falls as one over the rank: each power of two of ranks is as likely as the
    /// next. `pages` must be a power of two.
    Draws {
        /// Draws a pass.
        draws: u32,
        /// Whether ranks are scattered over the part or in order.
        scattered: bool,
    },
}

/// An odd number, so that multiplying by it scatters the numbers below a power of two over all these numbers.
const STREW: u64 = 0x9e37_79b1;

impl Pattern {
    /// Calls `touch(first page, pages)`, pages counted from the arena's first, for the pages that pass number `pass` touches, in order.
    pub fn pass(&self, pass: u64, mut touch: impl FnMut(u32, u32)) {
        for part in &self.parts {
            part.pass(pass, &mut touch);
        }
    }

    /// Error in the pattern, if any.
    pub fn flaw(&self) -> Option<String> {
        self.parts.iter().enumerate().find_map(|(index, part)| {
            let end = u64::from(part.first) + u64::from(part.pages);
            let wrong = if part.pages == 0 || end > u64::from(self.pages) {
                "reaches over the arena's end, or is empty"
            } else {
                part.motion_flaw()?
            };
            Some(format!("part {index} {wrong}"))
        })
    }
}

impl Part {
    fn motion_flaw(&self) -> Option<&'static str> {
        match self.motion {
            Motion::Every { passes: 0 } | Motion::Strided { step: 0 } | Motion::Sweep { per_pass: 0 } => {
                Some("has a distance of 0")
            }
            Motion::Hop { window, passes, .. } if window == 0 || passes == 0 || window > self.pages => {
                Some("has no window, or one larger than itself")
            }
            Motion::Draws { .. } if !self.pages.is_power_of_two() => {
                Some("draws from a number of pages that is no power of two")
            }
            _ => None,
        }
    }

    fn pass(&self, pass: u64, touch: &mut impl FnMut(u32, u32)) {
        let round = |pages: u64| u32::try_from(pages % u64::from(self.pages)).expect("less than the part's pages");
        match self.motion {
            Motion::Every { passes } => {
                if pass.is_multiple_of(u64::from(passes)) {
                    touch(self.first, self.pages);
                }
            }
            Motion::Strided { step } => {
                (0..self.pages).step_by(step as usize).for_each(|page| touch(self.first + page, 1));
            }
            Motion::Sweep { per_pass } => {
                self.window(round(pass * u64::from(per_pass)), per_pass.min(self.pages), touch)
            }
            Motion::Hop { window, passes, step } => {
                self.window(round(pass / u64::from(passes) * u64::from(step)), window, touch);
            }
            Motion::Uniform { draws } => {
                for draw in 0..draws {
                    touch(self.first + round(mix(pass << 20 | u64::from(draw)) >> 8), 1);
                }
            }
            Motion::Draws { draws, scattered } => {
                let octaves = u64::from(self.pages.trailing_zeros() + 1);
                for draw in 0..draws {
                    let word = mix(pass << 20 | u64::from(draw));
                    // Octave 0 is rank 0 alone, octave n the ranks from 2^(n-1) up to 2^n.
                    let base = (1u64 << ((word >> 32) % octaves)) >> 1;
                    let rank = base + (word & u64::from(u32::MAX)) % base.max(1);
                    let page = round(if scattered { rank * STREW } else { rank });
                    touch(self.first + page, 1);
                }
            }
        }
    }

    /// Pages from `at` on, wrapping around at the part's end.
    fn window(&self, at: u32, pages: u32, touch: &mut impl FnMut(u32, u32)) {
        let before_end = pages.min(self.pages - at);
        touch(self.first + at, before_end);
        if pages > before_end {
            touch(self.first, pages - before_end);
        }
    }
}

/// SplitMix64: a pseudo-random number for each number.
fn mix(number: u64) -> u64 {
    let mut word = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(motion: Motion, pass: u64) -> Vec<(u32, u32)> {
        let pattern = Pattern { pages: 32, parts: vec![Part { first: 8, pages: 16, motion }] };
        assert_eq!(pattern.flaw(), None);
        let mut touched = Vec::new();
        pattern.pass(pass, |page, pages| touched.push((page, pages)));
        touched
    }

    #[test]
    fn each_motion_by_hand() {
        assert_eq!(of(Motion::Every { passes: 3 }, 6), [(8, 16)]);
        assert_eq!(of(Motion::Every { passes: 3 }, 7), []);
        assert_eq!(of(Motion::Strided { step: 7 }, 9), [(8, 1), (15, 1), (22, 1)]);
        assert_eq!(of(Motion::Sweep { per_pass: 6 }, 0), [(8, 6)]);
        // Pass 2 begins at page 12 of 16.
        assert_eq!(of(Motion::Sweep { per_pass: 6 }, 2), [(20, 4), (8, 2)]);
        assert_eq!(of(Motion::Hop { window: 4, passes: 5, step: 10 }, 4), [(8, 4)]);
        // The third position is page 20 of 16, so page 4.
        assert_eq!(of(Motion::Hop { window: 4, passes: 5, step: 10 }, 10), [(12, 4)]);
    }

    #[test]
    fn uniform_draws_reach_everything_alike() {
        let touched = of(Motion::Uniform { draws: 1600 }, 3);
        for page in 8..24 {
            let of_page = touched.iter().filter(|&&(at, pages)| (at, pages) == (page, 1)).count();
            assert!((60..140).contains(&of_page), "page {page}: {of_page} of 100");
        }
    }

    #[test]
    fn draws_favour_low_ranks_and_repeat() {
        let motion = Motion::Draws { draws: 1000, scattered: false };
        let touched = of(motion, 1);
        assert_eq!(touched, of(motion, 1));
        assert_ne!(touched, of(motion, 2));
        // Five octaves: page 0 alone, page 1 alone, then 2, 4 and 8 pages, a fifth of the draws each.
        let of_page = |page: u32| touched.iter().filter(|&&(at, _)| at == 8 + page).count();
        assert!((150..250).contains(&of_page(0)) && (150..250).contains(&of_page(1)), "{} {}", of_page(0), of_page(1));
        let last: usize = (8..16).map(of_page).sum();
        assert!((150..250).contains(&last), "{last}");
        let scattered = of(Motion::Draws { draws: 1000, scattered: true }, 1);
        let mut counts: Vec<usize> =
            (8..24).map(|page| scattered.iter().filter(|&&(at, _)| at == page).count()).collect();
        let mut ordered: Vec<usize> = (0..16).map(of_page).collect();
        counts.sort_unstable();
        ordered.sort_unstable();
        assert_eq!(counts, ordered, "the same ranks at other places");
    }

    #[test]
    fn what_cannot_be_played_is_named() {
        let flaw = |first, pages, motion| Pattern { pages: 32, parts: vec![Part { first, pages, motion }] }.flaw();
        assert_eq!(
            flaw(20, 16, Motion::Every { passes: 1 }).unwrap(),
            "part 0 reaches over the arena's end, or is empty"
        );
        assert_eq!(flaw(0, 16, Motion::Sweep { per_pass: 0 }).unwrap(), "part 0 has a distance of 0");
        assert!(flaw(0, 12, Motion::Draws { draws: 1, scattered: true }).unwrap().contains("no power of two"));
        assert!(flaw(0, 4, Motion::Hop { window: 5, passes: 1, step: 1 }).unwrap().contains("larger than itself"));
    }
}
