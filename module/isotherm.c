// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * isotherm: the accessed bits of page tables, for a privileged program.
 *
 * A misc device, for root. Its interface is in isotherm.h; README.md describes how it is built, and its side effects.
 *
 * Lifetime of tables while their words are read. The mmap lock is held for reading, and walks only go to addresses inside a
 * mapping that was found under it: munmap() frees no table of such an address. Tables of page-table entries can still be
 * freed by the collapse to huge pages and by the reclaim of empty tables, and tables that hugetlb shares by their other
 * users. These free them after an RCU grace period, or after an interrupt that every processor has taken. So walks are made
 * under RCU or with interrupts off, and a changed upper entry makes an answer unknown.
 *
 * Changes of words. A word that was read as present is changed by compare-and-exchange of the whole word: nothing is written
 * if it has changed in between, even to a non-present entry. The processor itself sets bits in these words at any time, so
 * the kernel's own writers can handle changes of this bit. The table's lock is taken only if the page of a word is needed (to
 * mark it dirty or accessed): while the lock is held and the page is mapped, the page cannot be freed.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/hugetlb.h>
#include <linux/ktime.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/swap.h>
#include <linux/uaccess.h>
#include <asm/cpufeature.h>
#include <asm/invpcid.h>
#include <asm/tlbflush.h>

#include "isotherm.h"

/* Entries that are scanned before locks are dropped. */
#define CHUNK_ENTRIES 4096UL
#define CHUNK_WORDS (CHUNK_ENTRIES / 64)
/* Longest scan; a longer one returns, and is called again. */
#define SCAN_NS (2 * NSEC_PER_MSEC)
/* Mappings without struct pages, or not of normal memory, are not scanned. */
#define STRANGE_FLAGS (VM_IO | VM_PFNMAP | VM_MIXEDMAP)

static unsigned int nr_levels(void)
{
	return pgtable_l5_enabled() ? 5 : 4;
}

/* log2 of the bytes that an entry spans. Without five levels the fourth is the top, whatever its name in the kernel. */
static unsigned int shift_of(unsigned int level)
{
	static const u8 shifts[] = { PAGE_SHIFT, PMD_SHIFT, PUD_SHIFT, 39, 48 };

	return shifts[level];
}

/*
 * The memory of a process. The reference to the task pins it while its start time is compared: a reused PID is refused. A
 * task that calls exec keeps its PID and its start time; the caller must detect that.
 */
static struct mm_struct *target_mm(const struct isotherm_target *target)
{
	struct task_struct *task;
	struct mm_struct *mm = NULL;
	struct pid *pid;

	if (target->padding || target->pid <= 0)
		return ERR_PTR(-EINVAL);
	pid = find_get_pid(target->pid);
	task = get_pid_task(pid, PIDTYPE_TGID);
	put_pid(pid);
	if (!task)
		return ERR_PTR(-ESRCH);
	if (div_u64(task->start_boottime, NSEC_PER_SEC / USER_HZ) == target->start_time)
		mm = get_task_mm(task);
	put_task_struct(task);
	return mm ? mm : ERR_PTR(-ESRCH);
}

/* The same, with its mmap lock held for reading. */
static struct mm_struct *locked_mm(const struct isotherm_target *target)
{
	struct mm_struct *mm = target_mm(target);

	if (!IS_ERR(mm) && mmap_read_lock_killable(mm)) {
		mmput(mm);
		return ERR_PTR(-EINTR);
	}
	return mm;
}

/* Whether flush_here() drops the translations of all address spaces: without INVPCID only those of the loaded one. */
static bool flushes_all(void)
{
	return boot_cpu_has(X86_FEATURE_INVPCID) || !boot_cpu_has(X86_FEATURE_PCID);
}

static void flush_here(void *unused)
{
	/* With INVPCID both halves of an isolated address space, whatever their numbers. */
	if (boot_cpu_has(X86_FEATURE_INVPCID))
		invpcid_flush_all_nonglobals();
	else
		native_write_cr3(__native_read_cr3());
}

/* Drops the processors' cached translations of an address space. May be called under a table's lock, with interrupts on. */
static void flush_mm(struct mm_struct *mm)
{
	const struct cpumask *cpus = mm_cpumask(mm);

#ifdef X86_FEATURE_INVLPGB
	/* ASIDs may be the same on all processors then; a processor that returns to one does not compare generations. */
	if (boot_cpu_has(X86_FEATURE_INVLPGB))
		cpus = cpu_online_mask;
#endif
	/* Processors that ran it earlier compare this number when they return. It is a barrier too: the mask is read after it. */
	atomic64_inc_return(&mm->context.tlb_gen);
	on_each_cpu_mask(cpus, flush_here, NULL, true);
}

enum kind { NOTHING, TABLE, LEAF, STRANGE };

/* A word of a page table, as read. */
struct place {
	unsigned long *word;
	/* Under page-table isolation the processor walks a copy of the top table while the program runs. */
	unsigned long *copy;
	unsigned long value;
	unsigned int level;
	enum kind kind;
};

static enum kind kind_of(unsigned long value, unsigned int level)
{
	if (!(value & (_PAGE_PRESENT | _PAGE_PROTNONE)))
		return NOTHING;
	if (level == 0)
		return LEAF;
	if (level <= 2 && value & _PAGE_PSE)
		return LEAF;
	/* A huge leaf that a fault hint made inaccessible has no bit that says so on all kernels. */
	return value & _PAGE_PRESENT ? TABLE : STRANGE;
}

/* The word at `wanted`, or the leaf above it. Interrupts are off or RCU is held, and a mapping is at the address. */
static struct place find_place(struct mm_struct *mm, unsigned long address, unsigned int wanted)
{
	struct place place = { .level = nr_levels() - 1 };
	unsigned long *word = (unsigned long *)pgd_offset(mm, address);

	for (;;) {
		place.word = word;
		place.value = READ_ONCE(*word);
		place.kind = kind_of(place.value, place.level);
		if (place.kind != TABLE || place.level == wanted)
			break;
		/* Each upper entry is read once, and the walk continues from that value. */
		if (--place.level == 3) {
			pgd_t pgd = __pgd(place.value);

			word = (unsigned long *)p4d_offset(&pgd, address);
		} else if (place.level == 2) {
			p4d_t p4d = __p4d(place.value);

			word = (unsigned long *)pud_offset(&p4d, address);
		} else if (place.level == 1) {
			pud_t pud = __pud(place.value);

			word = (unsigned long *)pmd_offset(&pud, address);
		} else {
			pmd_t pmd = __pmd(place.value);

			word = (unsigned long *)pte_offset_kernel(&pmd, address);
		}
	}
	if (place.level == nr_levels() - 1 && boot_cpu_has(X86_FEATURE_PTI))
		place.copy = (unsigned long *)((unsigned long)place.word | PAGE_SIZE);
	return place;
}

/* Whether `bit` was set in a word that is unchanged, except for bits that the processor sets. */
static bool test_word(unsigned long *word, unsigned long bit, bool clears)
{
	unsigned long value = READ_ONCE(*word);

	if (!clears)
		return value & bit;
	/* An entry that a fault hint made inaccessible is cleared too, otherwise it would always appear accessed. */
	while (value & bit && value & (_PAGE_PRESENT | _PAGE_PROTNONE))
		if (try_cmpxchg(word, &value, value & ~bit))
			return true;
	return false;
}

static bool test_young(const struct place *place, bool clears)
{
	bool young = test_word(place->word, _PAGE_ACCESSED, clears);

	if (place->copy)
		young |= test_word(place->copy, _PAGE_ACCESSED, clears);
	return young;
}

/* The first mapping that overlaps [start, end); the last one found is tried first. */
static struct vm_area_struct *mapping_in(struct mm_struct *mm, struct vm_area_struct *last, unsigned long start,
					 unsigned long end)
{
	if (!last || start < last->vm_start || start >= last->vm_end)
		last = find_vma(mm, start);
	return start < end && last && last->vm_start < end ? last : NULL;
}

static bool is_strange(const struct vm_area_struct *vma)
{
	return vma->vm_flags & STRANGE_FLAGS || vma_is_dax(vma);
}

static void probe_one(struct mm_struct *mm, struct vm_area_struct **vma, struct isotherm_entry *entry, bool clears)
{
	unsigned long span = 1UL << shift_of(entry->level);
	unsigned long start = entry->address & ~(span - 1);
	unsigned long flags;
	struct place place;

	entry->seen = ISOTHERM_NOT_MAPPED;
	if (start >= TASK_SIZE_MAX)
		return;
	*vma = mapping_in(mm, *vma, start, start + span);
	if (!*vma)
		return;
	if (entry->level == 0 && is_strange(*vma)) {
		entry->seen = ISOTHERM_UNKNOWN;
		return;
	}
	local_irq_save(flags);
	place = find_place(mm, max(start, (*vma)->vm_start), entry->level);
	entry->level = place.level;
	if (place.kind == STRANGE)
		entry->seen = ISOTHERM_UNKNOWN;
	else if (place.kind != NOTHING)
		entry->seen = test_young(&place, clears) ? ISOTHERM_ACCESSED : ISOTHERM_IDLE;
	local_irq_restore(flags);
}

static long do_probe(void __user *argument)
{
	struct isotherm_probe probe;
	struct isotherm_entry *entries;
	struct vm_area_struct *vma = NULL;
	struct mm_struct *mm;
	long result = -EINVAL;
	size_t bytes;
	u32 index;

	if (copy_from_user(&probe, argument, sizeof(probe)))
		return -EFAULT;
	if (probe.flags & ~ISOTHERM_FLAGS || probe.count > ISOTHERM_BATCH_MAX)
		return -EINVAL;
	bytes = array_size(probe.count, sizeof(*entries));
	entries = vmemdup_user(u64_to_user_ptr(probe.entries), bytes);
	if (IS_ERR(entries))
		return PTR_ERR(entries);
	for (index = 0; index < probe.count; index++)
		if (entries[index].level >= nr_levels() || memchr_inv(entries[index].padding, 0, sizeof(entries->padding)))
			goto free;
	mm = locked_mm(&probe.target);
	result = PTR_ERR_OR_ZERO(mm);
	if (result)
		goto free;
	for (index = 0; index < probe.count; index++)
		probe_one(mm, &vma, &entries[index], probe.flags & ISOTHERM_CLEAR);
	mmap_read_unlock(mm);
	mmput(mm);
	if (copy_to_user(u64_to_user_ptr(probe.entries), entries, bytes))
		result = -EFAULT;
free:
	kvfree(entries);
	return result;
}

/* A piece of a scan: results for up to CHUNK_ENTRIES entries. */
struct chunk {
	unsigned long young[CHUNK_WORDS];
	unsigned long present[CHUNK_WORDS];
	unsigned long huge[CHUNK_WORDS];
	unsigned long written[CHUNK_WORDS];
};

struct scan {
	struct isotherm_scan *asked;
	struct mm_struct *mm;
	struct chunk *chunk;
	/* Address of the chunk's first entry. */
	unsigned long base;
	unsigned int shift;
	bool clears;
	bool wants_written;
};

static void note(struct scan *scan, unsigned long first, unsigned long end, bool young, bool huge, bool written)
{
	unsigned int from = (first - scan->base) >> scan->shift;
	unsigned int count = (end - first) >> scan->shift;

	bitmap_set(scan->chunk->present, from, count);
	scan->asked->nr_present += count;
	if (young) {
		bitmap_set(scan->chunk->young, from, count);
		scan->asked->nr_young += count;
	}
	if (huge)
		bitmap_set(scan->chunk->huge, from, count);
	if (written)
		bitmap_set(scan->chunk->written, from, count);
}

/*
 * Whether a page was written since its dirty bit was last cleared; clears it. The table's lock is held, so the page stays.
 *
 * Nothing is lost: the page is marked dirty before the bit is cleared, so reclaim writes it out, and a page freed by MADV_FREE
 * is kept as after a write. A processor that caches the bit as set would not set it again: reclaim and MADV_FREE, which check
 * the bit to decide on a flush, would then miss a write. So any clear is followed by a flush before the unlock (`cleared`).
 * A dirty bit without write permission marks a shadow stack: these are not touched, nor is any page that is not writable, nor
 * one without a struct page (zero page).
 */
static bool test_written(unsigned long *word, struct page *page, bool clears, bool *cleared)
{
	unsigned long value = READ_ONCE(*word);
	unsigned long wanted = _PAGE_PRESENT | _PAGE_RW | _PAGE_DIRTY;

	if ((value & wanted) != wanted)
		return false;
	if (clears && page) {
		set_page_dirty(page);
		*cleared |= test_word(word, _PAGE_DIRTY, true);
	}
	return true;
}

/* Whether an upper entry is unchanged, except for bits that the processor sets. */
static bool is_same(pmd_t *upper, pmd_t pmd)
{
	return !((pmd_val(READ_ONCE(*upper)) ^ pmd_val(pmd)) & ~(_PAGE_ACCESSED | _PAGE_DIRTY));
}

/* A table of page-table entries, whose upper entry was read as `pmd`. */
static void scan_table(struct scan *scan, pmd_t *upper, pmd_t pmd, unsigned long address, unsigned long end)
{
	unsigned long *word = (unsigned long *)pte_offset_kernel(&pmd, address);
	spinlock_t *lock = scan->wants_written ? pte_lockptr(scan->mm, &pmd) : NULL;
	bool young, written = false, cleared = false;

	if (lock) {
		spin_lock(lock);
		/* With the lock held the table stays, if it is still this one. */
		if (!is_same(upper, pmd)) {
			spin_unlock(lock);
			scan->asked->nr_skipped += (end - address) >> PAGE_SHIFT;
			return;
		}
	}
	for (; address < end; address += PAGE_SIZE, word++) {
		pte_t pte = { READ_ONCE(*word) };

		if (kind_of(pte_val(pte), 0) != LEAF)
			continue;
		young = test_word(word, _PAGE_ACCESSED, scan->clears);
		written = false;
		if (lock && !pte_special(pte) && pfn_valid(pte_pfn(pte)))
			written = test_written(word, pte_page(pte), scan->clears, &cleared);
		note(scan, address, address + PAGE_SIZE, young, false, written);
	}
	if (cleared)
		flush_mm(scan->mm);
	if (lock)
		spin_unlock(lock);
}

/*
 * The part [address, end) of a huge leaf. The leaf has one bit, which is cleared only with the last part, so that a leaf
 * larger than a chunk reads the same in all chunks.
 */
static void scan_huge(struct scan *scan, struct vm_area_struct *vma, const struct place *place, unsigned long address,
		      unsigned long end)
{
	unsigned long span = 1UL << shift_of(place->level);
	bool clears = scan->clears && (!(end & (span - 1)) || end == vma->vm_end || end == scan->asked->end);
	bool written = false, cleared = false;

	if (scan->wants_written && !is_vm_hugetlb_page(vma)) {
		pmd_t *pmd = (pmd_t *)place->word;
		spinlock_t *lock = pmd_lock(scan->mm, pmd);

		if (pmd_trans_huge(*pmd))
			written = test_written(place->word, pmd_page(*pmd), clears, &cleared);
		if (cleared)
			flush_mm(scan->mm);
		spin_unlock(lock);
	} else if (scan->wants_written) {
		written = test_written(place->word, NULL, false, &cleared);
	}
	note(scan, address, end, test_young(place, clears), place->level > scan->asked->level, written);
}

/* Pages of [start, end), which lies in one chunk. */
static void scan_leaves(struct scan *scan, unsigned long start, unsigned long end)
{
	struct vm_area_struct *vma = NULL;

	while ((vma = mapping_in(scan->mm, vma, start, end))) {
		bool is_shared_table = is_vm_hugetlb_page(vma);
		unsigned long stop, span;
		struct place place;

		start = max(start, vma->vm_start);
		stop = min(end, vma->vm_end);
		if (is_strange(vma)) {
			scan->asked->nr_skipped += (stop - start) >> PAGE_SHIFT;
			start = stop;
			continue;
		}
		rcu_read_lock();
		if (is_shared_table)
			local_irq_disable();
		place = find_place(scan->mm, start, 1);
		span = 1UL << shift_of(place.level);
		stop = min(stop, (start & ~(span - 1)) + span);
		if (place.kind == TABLE && !is_shared_table)
			scan_table(scan, (pmd_t *)place.word, __pmd(place.value), start, stop);
		else if (place.kind == LEAF)
			scan_huge(scan, vma, &place, start, stop);
		else if (place.kind == STRANGE)
			scan->asked->nr_skipped += (stop - start) >> PAGE_SHIFT;
		if (is_shared_table)
			local_irq_enable();
		rcu_read_unlock();
		start = stop;
	}
}

/* Entries above the leaf of [start, end). A mapping that starts within an entry is found too. */
static void scan_upper(struct scan *scan, unsigned long start, unsigned long end)
{
	struct vm_area_struct *vma = NULL;
	unsigned long span = 1UL << scan->shift;

	while (start < end && (vma = mapping_in(scan->mm, vma, start, end))) {
		struct place place;

		start = max(start, vma->vm_start & ~(span - 1));
		local_irq_disable();
		place = find_place(scan->mm, max(start, vma->vm_start), scan->asked->level);
		if (place.kind == STRANGE)
			scan->asked->nr_skipped++;
		else if (place.kind == LEAF)
			scan_huge(scan, vma, &place, start, start + span);
		else if (place.kind == TABLE)
			note(scan, start, start + span, test_young(&place, scan->clears), false, false);
		local_irq_enable();
		start += span;
	}
}

static int scan_chunk(struct scan *scan, unsigned long end)
{
	struct isotherm_scan *asked = scan->asked;
	const struct { u64 to; const unsigned long *bits; } maps[] = {
		{ asked->young, scan->chunk->young }, { asked->present, scan->chunk->present },
		{ asked->huge, scan->chunk->huge }, { asked->written, scan->chunk->written },
	};
	unsigned long first = (scan->base - asked->start) >> scan->shift;
	unsigned long bytes = DIV_ROUND_UP((end - scan->base) >> scan->shift, 64) * 8;
	unsigned int index;

	memset(scan->chunk, 0, sizeof(*scan->chunk));
	if (mmap_read_lock_killable(scan->mm))
		return -EINTR;
	if (asked->level == 0)
		scan_leaves(scan, scan->base, end);
	else
		scan_upper(scan, scan->base, end);
	mmap_read_unlock(scan->mm);
	for (index = 0; index < ARRAY_SIZE(maps); index++)
		if (maps[index].to && copy_to_user(u64_to_user_ptr(maps[index].to + first / 8), maps[index].bits, bytes))
			return -EFAULT;
	return 0;
}

static bool is_allowed(const struct isotherm_scan *asked)
{
	unsigned long mask;

	if (asked->flags & ~ISOTHERM_FLAGS || asked->level >= nr_levels())
		return false;
	if (asked->written && asked->level > 0)
		return false;
	mask = (1UL << shift_of(asked->level)) - 1;
	return asked->start <= asked->end && asked->end <= 1UL << 56 && !((asked->start | asked->end) & mask);
}

static long do_scan(void __user *argument)
{
	struct isotherm_scan asked;
	struct scan scan = { .asked = &asked };
	u64 deadline;
	long result = 0;

	if (copy_from_user(&asked, argument, sizeof(asked)))
		return -EFAULT;
	if (!is_allowed(&asked))
		return -EINVAL;
	asked.nr_young = 0;
	asked.nr_present = 0;
	asked.nr_skipped = 0;
	asked.next = asked.start;
	if (asked.written && asked.flags & ISOTHERM_CLEAR && (boot_cpu_has(X86_FEATURE_XENPV) || !flushes_all()))
		return -EOPNOTSUPP;
	scan.shift = shift_of(asked.level);
	scan.clears = asked.flags & ISOTHERM_CLEAR;
	scan.wants_written = asked.written;
	scan.mm = target_mm(&asked.target);
	if (IS_ERR(scan.mm))
		return PTR_ERR(scan.mm);
	scan.chunk = kmalloc(sizeof(*scan.chunk), GFP_KERNEL);
	if (!scan.chunk) {
		mmput(scan.mm);
		return -ENOMEM;
	}
	deadline = ktime_get_ns() + SCAN_NS;
	while (asked.next < asked.end) {
		unsigned long end = min_t(u64, asked.end, asked.next + (CHUNK_ENTRIES << scan.shift));

		scan.base = asked.next;
		result = scan_chunk(&scan, end);
		if (result)
			break;
		asked.next = end;
		if (fatal_signal_pending(current)) {
			result = -EINTR;
			break;
		}
		if (ktime_get_ns() >= deadline)
			break;
		cond_resched();
	}
	kfree(scan.chunk);
	mmput(scan.mm);
	if (!result && copy_to_user(argument, &asked, sizeof(asked)))
		result = -EFAULT;
	return result;
}

static long do_flush(void __user *argument)
{
	struct isotherm_flush flush;
	struct mm_struct *mm;

	if (copy_from_user(&flush, argument, sizeof(flush)))
		return -EFAULT;
	if (boot_cpu_has(X86_FEATURE_XENPV))
		return -EOPNOTSUPP;
	mm = target_mm(&flush.target);
	if (IS_ERR(mm))
		return PTR_ERR(mm);
	flush_mm(mm);
	mmput(mm);
	return 0;
}

/* The folio that an address maps, with a reference; NULL if there is none on an LRU list. */
static struct folio *folio_at(struct mm_struct *mm, struct vm_area_struct **vma, unsigned long address)
{
	struct page *page = NULL;
	struct folio *folio = NULL;
	struct place place;
	spinlock_t *lock;
	pmd_t *upper, pmd;

	*vma = mapping_in(mm, *vma, address, address + PAGE_SIZE);
	if (!*vma || is_strange(*vma) || is_vm_hugetlb_page(*vma))
		return NULL;
	rcu_read_lock();
	place = find_place(mm, address, 1);
	upper = (pmd_t *)place.word;
	pmd = __pmd(place.value);
	if (place.level == 1 && (place.kind == LEAF || place.kind == TABLE)) {
		lock = place.kind == LEAF ? pmd_lockptr(mm, upper) : pte_lockptr(mm, &pmd);
		spin_lock(lock);
		if (!is_same(upper, pmd)) {
			/* Changed during the probe: there may be a page, but not this one. */
		} else if (place.kind == LEAF) {
			/* Only a writable one: not the huge zero page. */
			page = pmd_write(pmd) ? pmd_page(pmd) : NULL;
		} else {
			pte_t pte = READ_ONCE(*pte_offset_kernel(&pmd, address));

			page = pte_present(pte) && !pte_special(pte) && pfn_valid(pte_pfn(pte)) ? pte_page(pte) : NULL;
		}
		if (page) {
			folio = page_folio(page);
			folio_get(folio);
		}
		spin_unlock(lock);
	}
	rcu_read_unlock();
	return folio;
}

static long do_activate(void __user *argument)
{
	struct isotherm_activate asked;
	struct vm_area_struct *vma = NULL;
	struct mm_struct *mm;
	u64 *addresses;
	u32 index;

	if (copy_from_user(&asked, argument, sizeof(asked)))
		return -EFAULT;
	if (asked.count > ISOTHERM_BATCH_MAX)
		return -EINVAL;
	addresses = vmemdup_user(u64_to_user_ptr(asked.addresses), array_size(asked.count, sizeof(*addresses)));
	if (IS_ERR(addresses))
		return PTR_ERR(addresses);
	mm = locked_mm(&asked.target);
	if (IS_ERR(mm)) {
		kvfree(addresses);
		return PTR_ERR(mm);
	}
	asked.done = 0;
	for (index = 0; index < asked.count; index++) {
		unsigned long address = addresses[index] & PAGE_MASK;
		struct folio *folio = address < TASK_SIZE_MAX ? folio_at(mm, &vma, address) : NULL;

		if (!folio)
			continue;
		folio_mark_accessed(folio);
		folio_put(folio);
		asked.done++;
	}
	mmap_read_unlock(mm);
	mmput(mm);
	kvfree(addresses);
	return copy_to_user(argument, &asked, sizeof(asked)) ? -EFAULT : 0;
}

static long do_version(void __user *argument)
{
	struct isotherm_version version = { .abi = ISOTHERM_ABI, .nr_levels = nr_levels() };
	unsigned int level;

	for (level = 0; level < nr_levels(); level++)
		version.shifts[level] = shift_of(level);
	return copy_to_user(argument, &version, sizeof(version)) ? -EFAULT : 0;
}

static long isotherm_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	void __user *pointer = (void __user *)argument;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	switch (command) {
	case ISOTHERM_VERSION:
		return do_version(pointer);
	case ISOTHERM_PROBE:
		return do_probe(pointer);
	case ISOTHERM_SCAN:
		return do_scan(pointer);
	case ISOTHERM_FLUSH:
		return do_flush(pointer);
	case ISOTHERM_ACTIVATE:
		return do_activate(pointer);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations isotherm_operations = {
	.owner = THIS_MODULE,
	.open = nonseekable_open,
	.unlocked_ioctl = isotherm_ioctl,
};

static struct miscdevice isotherm_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "isotherm",
	.fops = &isotherm_operations,
	.mode = 0600,
};

module_misc_device(isotherm_device);

MODULE_DESCRIPTION("Accessed bits of page tables, for isotherm");
MODULE_VERSION("1");
MODULE_LICENSE("GPL");
