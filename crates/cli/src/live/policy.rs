//! The page-replacement policy that a machine runs.

use isotherm_linux::Root;

/// The switch of the Multi-Gen LRU (Documentation/admin-guide/mm/multigen_lru.rst).
const LRU_GEN: &str = "/sys/kernel/mm/lru_gen/enabled";

/// The policy that this machine runs; a kernel without the switch only has the two lists.
pub(crate) fn running_policy(root: &Root) -> &'static str {
    root.read(LRU_GEN).map_or("classic", |text| policy_of(text.trim()))
}

/// The policy that a value of the switch means: the lowest bit is the Multi-Gen LRU itself.
pub(crate) fn policy_of(enabled: &str) -> &'static str {
    let bits = u64::from_str_radix(enabled.trim_start_matches("0x"), 16).unwrap_or(0);
    if bits & 1 == 1 { "mglru" } else { "classic" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_bit_says_it() {
        for (text, policy) in
            [("0x0007", "mglru"), ("0x0001", "mglru"), ("0x0006", "classic"), ("0x0000", "classic"), ("", "classic")]
        {
            assert_eq!(policy_of(text), policy, "{text}");
        }
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(running_policy(&Root::below(folder.path())), "classic");
    }
}
