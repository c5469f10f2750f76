/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The program's mappings, from the core's address space manager. It separates them from the tool's own, which
   /proc/self/maps does not. */

#include "layout.h"
#include "pub_tool_aspacehl.h"
#include "pub_tool_machine.h"

#define FIRST_THREAD 1

/* Lowest address to which the stack may grow: the core has reserved the addresses below it. */
static Addr stack_start(const NSegment* stack)
{
   const NSegment* below = VG_(am_find_nsegment)(stack->start - 1);
   return below != NULL && below->kind == SkResvn && below->smode == SmUpper ? below->start : stack->start;
}

static void report(const NSegment* segment, RecordSink sink, void* context)
{
   const HChar* name = VG_(am_get_filename)(segment);
   ULong flags = MAP_IS_INITIAL;
   Addr start = segment->start, stack = VG_(get_SP)(FIRST_THREAD);
   if (segment->kind == SkShmC) {
      flags |= MAP_IS_SHARED;
   }
   if (segment->hasX) {
      flags |= MAP_IS_EXECUTABLE;
   }
   if (segment->kind == SkFileC && name != NULL) {
      flags |= MAP_IS_FILE;
   }
   if (segment->kind == SkAnonC && segment->start <= stack && stack <= segment->end) {
      flags |= MAP_IS_STACK;
      start = stack_start(segment);
   }
   ULong first = start >> PAGE_BITS, pages = (segment->end + 1 - start) >> PAGE_BITS;
   ULong file_page = (ULong)segment->offset >> PAGE_BITS;
   sink(context, &(Record){ RECORD_MAP, 4, { first, pages, flags, file_page }, (flags & MAP_IS_FILE) != 0 ? name : "" });
}

void layout_initial(RecordSink sink, void* context)
{
   Int nr_starts;
   Addr* starts = VG_(get_segment_starts)(SkFileC | SkAnonC | SkShmC, &nr_starts);
   for (Int i = 0; i < nr_starts; i++) {
      const NSegment* segment = VG_(am_find_nsegment)(starts[i]);
      if (segment != NULL && !is_of_tool(segment->start) && (segment->hasR || segment->hasW || segment->hasX)) {
         report(segment, sink, context);
      }
   }
   VG_(free)(starts);
}

const HChar* layout_file_at(Addr address)
{
   const NSegment* segment = VG_(am_find_nsegment)(address);
   const HChar* name = segment != NULL && segment->kind == SkFileC ? VG_(am_get_filename)(segment) : NULL;
   return name != NULL ? name : "";
}
