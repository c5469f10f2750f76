/* SPDX-License-Identifier: GPL-2.0-or-later WITH Linux-syscall-note */
/*
 * The interface of /dev/isotherm: the accessed bits of page tables, by entry or by range, and marking of pages as accessed.
 * Callers need CAP_SYS_ADMIN at each call. crates/linux/src/module.rs has the same in Rust; both have tests of sizes and
 * offsets. Numbers are in the machine's byte order; all padding must be 0.
 */
#ifndef ISOTHERM_H
#define ISOTHERM_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Version of this interface. The module supports no other. */
#define ISOTHERM_ABI 1

#define ISOTHERM_LEVELS_MAX 8
/* Most entries of one ISOTHERM_PROBE, and most addresses of one ISOTHERM_ACTIVATE. */
#define ISOTHERM_BATCH_MAX 4096

/* A process that cannot be mistaken for another one with the same PID. */
struct isotherm_target {
	/* PID in the caller's PID namespace. */
	__s32 pid;
	__u32 padding;
	/* Field 22 of /proc/PID/stat: start time of the process, in hundredths of a second since boot. ESRCH if it differs. */
	__u64 start_time;
};

struct isotherm_version {
	__u32 abi;
	/* Number of page-table levels, including the leaf. */
	__u32 nr_levels;
	/* log2 of the bytes that an entry spans, from the leaf up. */
	__u8 shifts[ISOTHERM_LEVELS_MAX];
};

/* Result of a probe. */
enum isotherm_seen {
	ISOTHERM_IDLE = 0,
	ISOTHERM_ACCESSED = 1,
	/* Not mapped. */
	ISOTHERM_NOT_MAPPED = 2,
	/* The entry changed during the probe, or is of a kind that is not probed: device memory, bare frame numbers. */
	ISOTHERM_UNKNOWN = 3,
};

/* An entry to probe. */
struct isotherm_entry {
	__u64 address;
	/* In: wanted level, 0 for the leaf. Out: the level probed; a huge leaf above the wanted level answers at its own. */
	__u8 level;
	/* Out: enum isotherm_seen. */
	__u8 seen;
	__u8 padding[6];
};

/* Flags of probes and scans. */
#define ISOTHERM_CLEAR 1u
#define ISOTHERM_FLAGS ISOTHERM_CLEAR

struct isotherm_probe {
	struct isotherm_target target;
	/* Address of an array of struct isotherm_entry. */
	__u64 entries;
	__u32 count;
	__u32 flags;
};

/*
 * All entries of one level in a range. Bitmaps have one bit for each entry, bit 0 of the first 64-bit word for the entry of `start`;
 * each is (entries + 63) / 64 words, and whole words of scanned entries are written. An address of 0 skips that bitmap.
 */
struct isotherm_scan {
	struct isotherm_target target;
	/* Byte addresses, multiples of the span of an entry of the level. */
	__u64 start;
	__u64 end;
	/* Out: the first address not scanned, aligned so that a call can continue there: a multiple of 64 entries from start, or end. */
	__u64 next;
	/* Addresses of bitmaps: accessed since the bit was last cleared; */
	__u64 young;
	/* present; */
	__u64 present;
	/* mapped by a huge leaf above the level, whose bit counts for all entries that it covers; */
	__u64 huge;
	/* written since ISOTHERM_CLEAR last cleared it. Only at the leaf level. The page is marked dirty before the bit is cleared. */
	__u64 written;
	__u32 level;
	__u32 flags;
	/* Out: entries whose bit was set, that are present, and that are of a kind that is not scanned. */
	__u64 nr_young;
	__u64 nr_present;
	__u64 nr_skipped;
};

struct isotherm_flush {
	struct isotherm_target target;
};

/* Marks the pages at these addresses accessed, as by mark_page_accessed(). Pages that are not present are skipped. */
struct isotherm_activate {
	struct isotherm_target target;
	/* Address of an array of byte addresses. */
	__u64 addresses;
	__u32 count;
	/* Out: pages marked. */
	__u32 done;
};

#define ISOTHERM_IOC_MAGIC 0xB7
#define ISOTHERM_VERSION _IOR(ISOTHERM_IOC_MAGIC, 0, struct isotherm_version)
#define ISOTHERM_PROBE _IOWR(ISOTHERM_IOC_MAGIC, 1, struct isotherm_probe)
#define ISOTHERM_SCAN _IOWR(ISOTHERM_IOC_MAGIC, 2, struct isotherm_scan)
#define ISOTHERM_FLUSH _IOW(ISOTHERM_IOC_MAGIC, 3, struct isotherm_flush)
#define ISOTHERM_ACTIVATE _IOWR(ISOTHERM_IOC_MAGIC, 4, struct isotherm_activate)

#endif
