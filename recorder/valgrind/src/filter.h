/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The epoch filter: which pages a thread has touched in its current epoch.

   In front stand two direct-mapped tables that the translated code asks by itself (see instrument.c). There is one pair for
   the whole process, because Valgrind runs one thread at a time: it speaks of the running thread and its epoch, and is
   emptied when either changes, 64 KiB. Behind it an open-addressed table per thread knows all pages of the epoch exactly.
   An entry of that is one word: the page, the epoch's stamp and a written bit. An entry with another stamp counts as empty,
   so that a new epoch costs nothing there. */

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
   UInt* places;    /* where the page of a table entry stands in `touched`; valid where the entry is */
   ULong* touched;  /* page, by kernel, written (two bits) in order of first touch, or 0 for a page forgotten since; half the table's length */
   UInt nr_touched;
   UInt handed_out; /* touches below this place were handed out */
} Filter;

void filter_create(Filter* filter);
void filter_destroy(Filter* filter);

/* A load or store of page number `page`. One by the program is noted in front too; one by the kernel is not, so that the
   program's own first touch comes here. */
void filter_touch(Filter* filter, ULong page, Bool write, Bool kernel);

/* Pages that follow each other in order of first touch. `kernel`: only the kernel touched them. */
typedef void (*RunSink)(void* context, ULong page, ULong pages, Bool write, Bool kernel);

/* Hands out the touches since the last call, folded into runs, and keeps the pages in the filter: within this epoch they do
   not appear again. */
void filter_hand_out(Filter* filter, RunSink sink, void* context);

static inline Bool filter_has_news(const Filter* filter) { return filter->handed_out < filter->nr_touched; }

/* Begins the next epoch: every page counts as untouched again. Touches not handed out are lost. */
void filter_next_epoch(Filter* filter);

/* Makes pages of [start, end) count as untouched, because other memory is there from now on. Hand out first. */
void filter_forget(Filter* filter, ULong start, ULong end);

#endif
