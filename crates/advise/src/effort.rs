//! Number of replays for an answer.

use serde::Serialize;

/// How certain an answer is, and its cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effort {
    /// For a first answer: the interval of a recommendation is the range of 5 replays, which leaves out one outcome in 6 on the side
    /// that matters; configurations are compared by 2.
    Quick,
    /// The range of 10 replays and more, one outcome in 11; replays are spent where they decide.
    #[default]
    Normal,
    /// As `normal`, with two replays of every configuration at every size, and no configuration dropped on the way.
    Thorough,
}

/// The efforts there are, the cheapest first, by name.
pub const EFFORTS: &[(Effort, &str)] =
    &[(Effort::Quick, "quick"), (Effort::Normal, "normal"), (Effort::Thorough, "thorough")];

impl Effort {
    /// Replays of each configuration at each size asked for, which show the shape.
    pub(super) fn of_shape(self) -> usize {
        match self {
            Self::Quick | Self::Normal => 1,
            Self::Thorough => 2,
        }
    }

    /// Replays of a configuration that may be recommended at each step of its band.
    pub(super) fn of_band(self) -> usize {
        match self {
            Self::Quick => 1,
            Self::Normal | Self::Thorough => 2,
        }
    }

    /// Replays that the judgement of the size to recommend is drawn from, at least.
    pub(super) fn to_be_sure(self) -> usize {
        match self {
            Self::Quick => 5,
            Self::Normal | Self::Thorough => 10,
        }
    }

    /// The same where replays with a little less memory were killed. With more replays a smaller size is found at which at most 1 run in 100
    /// is killed (`docs/use/advise.md#kills`).
    pub(super) fn to_be_sure_of_life(self) -> usize {
        match self {
            Self::Quick => 20,
            Self::Normal => 60,
            Self::Thorough => 300,
        }
    }

    /// The same for configurations that cannot be recommended: baselines, and combinations with schemes.
    pub(super) fn to_show(self) -> usize {
        match self {
            Self::Quick => 1,
            Self::Normal => 2,
            Self::Thorough => 5,
        }
    }

    /// Replays of each configuration that can be recommended at the size where all are compared.
    pub(super) fn to_compare(self) -> usize {
        match self {
            Self::Quick => 2,
            Self::Normal | Self::Thorough => 5,
        }
    }

    /// Replays of a whole search, in tenths of the replays of the shape with one a size: measured on the bundled recordings, 0.8 to 2.2 for
    /// `quick`, 1.2 to 3.1 for `normal`, 3.2 to 4.9 for `thorough` (`docs/use/advise.md#effort`).
    pub(super) fn replays_per_shape_tenths(self) -> u64 {
        match self {
            Self::Quick => 14,
            Self::Normal => 20,
            Self::Thorough => 43,
        }
    }

    /// Whether configurations that cannot win any more are dropped.
    pub(super) fn is_race(self) -> bool {
        self != Self::Thorough
    }
}
