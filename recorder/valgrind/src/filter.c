/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The exact table behind the front, one per thread. */

#include "filter.h"

/* Bits of an entry below the page: the stamp and the written bit. User addresses have 47 bits, their pages 35, which fills a
   word together with the stamp. */
#define STAMP_BITS 29
#define STAMP_STEP 2UL /* stamps count in twos; bit 0 is the written bit */
#define STAMP_END (1UL << STAMP_BITS)
#define STAMP_MASK (STAMP_END - STAMP_STEP)
#define WRITTEN 1UL
/* Bits of an entry of `touched`, below the page: the written bit, and whether only the kernel touched it. */
#define BY_KERNEL 2UL
#define TOUCH_BITS 2
#define PAGE_MASK ((1UL << (64 - STAMP_BITS)) - 1)
/* 2^64 divided by the golden ratio, odd: adjacent pages spread evenly. */
#define HASH 0x9e3779b97f4a7c15UL
#define FIRST_BITS 12

Addr front_touched[FRONT_SLOTS];
Addr front_written[FRONT_SLOTS];

void front_clear(void)
{
   VG_(memset)(front_touched, 0xff, sizeof front_touched);
   VG_(memset)(front_written, 0xff, sizeof front_written);
}

static SizeT table_length(const Filter* filter) { return (SizeT)1 << filter->bits; }

static SizeT first_slot(const Filter* filter, ULong page) { return (page * HASH) >> (64 - filter->bits); }

static SizeT next_slot(const Filter* filter, SizeT slot) { return (slot + 1) & (table_length(filter) - 1); }

static ULong tag_of(const Filter* filter, ULong page) { return page << STAMP_BITS | filter->stamp; }

static Bool is_current(const Filter* filter, ULong entry) { return (entry & STAMP_MASK) == filter->stamp; }

static void make_table(Filter* filter, UInt bits)
{
   filter->bits = bits;
   filter->table = VG_(calloc)("isorec.table", table_length(filter), sizeof *filter->table);
   filter->places = VG_(malloc)("isorec.places", table_length(filter) * sizeof *filter->places);
}

static SizeT touched_bytes(const Filter* filter) { return (table_length(filter) / 2 + 1) * sizeof *filter->touched; }

void filter_create(Filter* filter)
{
   make_table(filter, FIRST_BITS);
   filter->stamp = STAMP_STEP;
   filter->touched = VG_(malloc)("isorec.touched", touched_bytes(filter));
   filter->nr_touched = 0;
   filter->handed_out = 0;
}

void filter_destroy(Filter* filter)
{
   VG_(free)(filter->table);
   VG_(free)(filter->places);
   VG_(free)(filter->touched);
}

/* The slot of a page: the one that holds it (`*found`), or the empty one at the end of the search. */
static SizeT find(const Filter* filter, ULong page, Bool* found)
{
   ULong tag = tag_of(filter, page);
   SizeT slot = first_slot(filter, page);
   while (is_current(filter, filter->table[slot])) {
      if ((filter->table[slot] | WRITTEN) == (tag | WRITTEN)) {
         *found = True;
         return slot;
      }
      slot = next_slot(filter, slot);
   }
   *found = False;
   return slot;
}

static void grow(Filter* filter)
{
   VG_(free)(filter->table);
   VG_(free)(filter->places);
   make_table(filter, filter->bits + 1);
   filter->touched = VG_(realloc)("isorec.touched", filter->touched, touched_bytes(filter));
   for (UInt place = 0; place < filter->nr_touched; place++) {
      ULong page = filter->touched[place] >> TOUCH_BITS;
      if (page != 0) {
         Bool found;
         SizeT slot = find(filter, page, &found);
         /* A page that was passed on as read and written later is here twice; the later index counts. */
         filter->table[slot] = tag_of(filter, page) | (filter->touched[place] & WRITTEN);
         filter->places[slot] = place;
      }
   }
}

static void append(Filter* filter, SizeT slot, ULong page, Bool write, Bool kernel)
{
   filter->places[slot] = filter->nr_touched;
   filter->touched[filter->nr_touched++] = page << TOUCH_BITS | (kernel ? BY_KERNEL : 0) | (write ? WRITTEN : 0);
   if (filter->nr_touched * 2UL > table_length(filter)) {
      grow(filter);
   }
}

/* A page that was touched in this epoch is now written, or touched by the program for the first time. */
static void touch_again(Filter* filter, SizeT slot, ULong page, Bool write, Bool kernel)
{
   ULong* touch = &filter->touched[filter->places[slot]];
   Bool is_first_write = write && (filter->table[slot] & WRITTEN) == 0;
   Bool is_first_own = !kernel && (*touch & BY_KERNEL) != 0;
   if (!is_first_write && !is_first_own) {
      return;
   }
   if (write) {
      filter->table[slot] |= WRITTEN;
   }
   if (filter->places[slot] < filter->handed_out) {
      append(filter, slot, page, write, kernel); /* the earlier touch was passed on already, so this is a separate one */
      return;
   }
   *touch |= write ? WRITTEN : 0;
   *touch &= kernel ? ~0UL : ~BY_KERNEL;
}

void filter_touch(Filter* filter, ULong page, Bool write, Bool kernel)
{
   page &= PAGE_MASK;
   if (page == 0) {
      return; /* never mapped; its value marks forgotten touches */
   }
   Bool found, written = write;
   SizeT slot = find(filter, page, &found);
   if (!found) {
      filter->table[slot] = tag_of(filter, page) | (write ? WRITTEN : 0);
      append(filter, slot, page, write, kernel);
   } else {
      written = write || (filter->table[slot] & WRITTEN) != 0;
      touch_again(filter, slot, page, write, kernel);
   }
   if (kernel) {
      return;
   }
   Addr address = page << PAGE_BITS;
   front_touched[front_slot(address)] = address;
   if (written) {
      front_written[front_slot(address)] = address;
   }
}

void filter_hand_out(Filter* filter, RunSink sink, void* context)
{
   ULong start = 0, pages = 0;
   Bool write = False, kernel = False;
   for (UInt place = filter->handed_out; place < filter->nr_touched; place++) {
      ULong page = filter->touched[place] >> TOUCH_BITS;
      Bool written = (filter->touched[place] & WRITTEN) != 0, by_kernel = (filter->touched[place] & BY_KERNEL) != 0;
      if (page == 0) {
         continue;
      }
      if (pages > 0 && page == start + pages && written == write && by_kernel == kernel) {
         pages++;
         continue;
      }
      if (pages > 0) {
         sink(context, start, pages, write, kernel);
      }
      start = page;
      pages = 1;
      write = written;
      kernel = by_kernel;
   }
   if (pages > 0) {
      sink(context, start, pages, write, kernel);
   }
   filter->handed_out = filter->nr_touched;
}

void filter_next_epoch(Filter* filter)
{
   filter->nr_touched = 0;
   filter->handed_out = 0;
   filter->stamp += STAMP_STEP;
   if (filter->stamp == STAMP_END) {
      VG_(memset)(filter->table, 0, table_length(filter) * sizeof *filter->table);
      filter->stamp = STAMP_STEP;
   }
   front_clear();
}

void filter_forget(Filter* filter, ULong start, ULong end)
{
   for (UInt place = 0; place < filter->nr_touched; place++) {
      ULong page = filter->touched[place] >> TOUCH_BITS;
      if (page == 0 || page < start || page >= end) {
         continue;
      }
      filter->touched[place] = 0;
      Bool found;
      SizeT slot = find(filter, page, &found);
      if (found) {
         filter->table[slot] = filter->stamp; /* page 0: not empty, so that later entries of the chain are found */
      }
   }
   front_clear();
}
