//! Invalid calls of the module's interface are refused with the right error.

use super::same;
use crate::device::{ACTIVATE, Device, FLUSH, PROBE, Process, SCAN};
use crate::sys::{self, PAGE};

/// Makes all wrong calls about the process, whose arena begins at byte `start`.
pub(super) fn refused(device: &Device, process: &Process<'_>, start: u64) -> Result<(), String> {
    let [pid, begun] = process.target;
    let end = start + 64 * PAGE;
    let scan = [pid, begun, start, end, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let with = |changes: &[(usize, u64)]| {
        let mut words = scan;
        for &(index, value) in changes {
            words[index] = value;
        }
        words
    };
    let scans = [
        ("a plain scan", with(&[]), Ok(())),
        ("another start", with(&[(1, begun + 1)]), Err(libc::ESRCH)),
        ("padding", with(&[(0, pid | 1 << 32)]), Err(libc::EINVAL)),
        ("process 0", with(&[(0, 0)]), Err(libc::EINVAL)),
        ("nobody", with(&[(0, 0x3f_ffff)]), Err(libc::ESRCH)),
        ("unaligned", with(&[(2, start + 1)]), Err(libc::EINVAL)),
        ("reversed", with(&[(2, end), (3, start)]), Err(libc::EINVAL)),
        ("beyond all", with(&[(3, !(PAGE - 1))]), Err(libc::EINVAL)),
        ("a huge range", with(&[(2, 0), (3, 1 << 56)]), Ok(())),
        ("a level too high", with(&[(9, 4)]), Err(libc::EINVAL)),
        ("an unknown flag", with(&[(9, 2 << 32)]), Err(libc::EINVAL)),
        ("a bitmap nowhere", with(&[(5, 8)]), Err(libc::EFAULT)),
        ("a bitmap of the kernel's", with(&[(6, 0xffff_8880_0000_0000)]), Err(libc::EFAULT)),
        ("written above leaves", with(&[(2, 0), (3, 1 << 21), (8, 8), (9, 1)]), Err(libc::EINVAL)),
    ];
    for (what, mut words, expected) in scans {
        let seen = device.call(SCAN, &mut words);
        same(what, &seen, &expected)?;
    }
    let mut entry = [start, 9];
    let at = entry.as_mut_ptr() as u64;
    let probes = [
        ("too many entries", [pid, begun, at, 4097], libc::EINVAL),
        ("a level out of range", [pid, begun, at, 1], libc::EINVAL),
        ("entries nowhere", [pid, begun, 8, 1], libc::EFAULT),
    ];
    for (what, mut words, errno) in probes {
        same(what, &device.call(PROBE, &mut words), &Err(errno))?;
    }
    entry = [start, 1 << 16];
    let mut words = [pid, begun, entry.as_mut_ptr() as u64, 1];
    same("padding of an entry", &device.call(PROBE, &mut words), &Err(libc::EINVAL))?;
    let mut words = [pid, begun, 8, 1];
    same("addresses nowhere", &device.call(ACTIVATE, &mut words), &Err(libc::EFAULT))?;
    same("a kernel thread", &device.call(FLUSH, &mut device.process(2)?.target), &Err(libc::ESRCH))?;
    same("an unknown call", &device.call(0x8010_b709, &mut words), &Err(libc::ENOTTY))?;
    same("another size", &device.call(0x8018_b700, &mut words), &Err(libc::ENOTTY))?;
    same("an argument nowhere", &sys::ioctl(&device.0, SCAN, 8), &Err(libc::EFAULT))
}
