/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The epoch filter: the pages that a thread has touched in its current epoch.

   The front consists of two direct-mapped tables that the translated code checks itself (see instrument.c). There is one
   pair of 64 KiB for the whole process, because Valgrind runs one thread at a time: it holds data of the running thread and
   its epoch, and is cleared when either changes. Behind it, an open-addressing hash table per thread has exactly the pages
   of the epoch. An entry of that is one word: the page, the epoch's stamp and a written bit. An entry with another stamp
   counts as empty, so a new epoch costs nothing there. */

#ifndef ISOREC_FILTER_H
#define ISOREC_FILTER_H

#include "core.h"

#define FRONT_BITS 12
#define FRONT_SLOTS (1UL << FRONT_BITS)
/* Equals no page's address. */
#define FRONT_EMPTY (~0UL)

/* Addresses of pages that the running thread has touched and written in this epoch, by the low bits of their numbers. */
extern Addr front_touched[FRONT_SLOTS];
extern Addr front_written[FRONT_SLOTS];

static inline UWord front_slot(Addr address) { return address >> PAGE_BITS & (FRONT_SLOTS - 1); }

void front_clear(void);

typedef struct {
   ULong stamp;
   UInt bits; /* log2 of the table's length */
   ULong* table;
   UInt* places;    /* index of a table entry's page in `touched`; valid if the entry is */
   ULong* touched;  /* page, by kernel, written (two bits) in order of first touch, or 0 for a page forgotten since; half the table's length */
   UInt nr_touched;
   UInt handed_out; /* touches below this index were passed on */
} Filter;

void filter_create(Filter* filter);
void filter_destroy(Filter* filter);

/* A load or store of page number `page`. One by the program is recorded in the front too. One by the kernel is not, so that
   the program's own first touch still gets here. */
void filter_touch(Filter* filter, ULong page, Bool write, Bool kernel);

/* Consecutive pages, in order of first touch. `kernel`: only the kernel touched them. */
typedef void (*RunSink)(void* context, ULong page, ULong pages, Bool write, Bool kernel);

/* Passes on the touches since the last call, folded into runs, and keeps the pages in the filter: they do not appear again
   within this epoch. */
void filter_hand_out(Filter* filter, RunSink sink, void* context);

static inline Bool filter_has_news(const Filter* filter) { return filter->handed_out < filter->nr_touched; }

/* Starts the next epoch: every page counts as untouched again. Touches not passed on are lost. */
void filter_next_epoch(Filter* filter);

/* Makes pages of [start, end) count as untouched, because their memory was replaced. Pass on touches first. */
void filter_forget(Filter* filter, ULong start, ULong end);

#endif
