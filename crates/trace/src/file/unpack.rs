//! Bit-unpacking of 32 values at a time, one straight-line function a width.

/// Bytes that must be readable after the packed bits, with any contents.
pub(crate) const SLACK_BYTES: usize = 8;

/// Unpacks 32 little-endian values of `width` bits from the start of `packed`.
///
/// # Panics
/// When `width` is above 64, or `packed` is shorter than `4 * width + SLACK_BYTES`.
#[inline]
pub(crate) fn unpack_32(width: u8, packed: &[u8], out: &mut [u64; 32]) {
    macro_rules! dispatch {
        ($($bits:literal)*) => {
            match width {
                0 => out.fill(0),
                $($bits => unpack::<$bits>(packed, out),)*
                _ => panic!("widths above 64 bits are refused before"),
            }
        };
    }
    dispatch!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64);
}

#[inline]
fn unpack<const BITS: usize>(packed: &[u8], out: &mut [u64; 32]) {
    let packed = &packed[..4 * BITS + SLACK_BYTES];
    let mask = u64::MAX >> (64 - BITS);
    for (index, value) in out.iter_mut().enumerate() {
        let (byte, shift) = (index * BITS / 8, index * BITS % 8);
        let mut word = [0u8; 8];
        word.copy_from_slice(&packed[byte..byte + 8]);
        let mut bits = u64::from_le_bytes(word) >> shift;
        if BITS > 57 && shift + BITS > 64 {
            bits |= u64::from(packed[byte + 8]) << (64 - shift);
        }
        *value = bits & mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn unpacking_undoes_packing(width in 0u8..=64, raw in proptest::collection::vec(any::<u64>(), 32)) {
            let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
            let mut packed = vec![0u8; 4 * width as usize + SLACK_BYTES];
            packed[4 * width as usize..].fill(0xff);
            for (index, value) in raw.iter().enumerate() {
                for bit in 0..usize::from(width) {
                    let at = index * usize::from(width) + bit;
                    packed[at / 8] |= u8::from(value >> bit & 1 == 1) << (at % 8);
                }
            }
            let mut out = [7u64; 32];
            unpack_32(width, &packed, &mut out);
            let expected: Vec<u64> = raw.iter().map(|value| value & mask).collect();
            prop_assert_eq!(&out[..], &expected[..]);
        }
    }
}
