/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The idle clock. The number of threads that are awake and the moment at which the last one fell asleep change together, so
   both are in one word of the control block.

   A process that SIGKILL ends leaves its threads counted as awake, and the clock stands still from then on. sleep.c has a rule
   for that. */

#include "idle.h"
#include "spool.h"

#define SINCE_BITS 48 /* of microseconds: nine years */
#define SINCE_MASK ((1ULL << SINCE_BITS) - 1)
#define ONE_AWAKE (1ULL << SINCE_BITS)
#define NS_PER_US 1000ULL
#define NS_PER_SECOND 1000000000ULL

ULong wall_ns(void)
{
   struct vki_timespec now;
   VG_(clock_gettime)(&now, VKI_CLOCK_MONOTONIC);
   return (ULong)now.tv_sec * NS_PER_SECOND + (ULong)now.tv_nsec;
}

ULong idle_clock_ns(void)
{
   return __atomic_load_n(&control->idle_ns, __ATOMIC_RELAXED);
}

static Bool change(ULong* before, ULong after)
{
   return __atomic_compare_exchange_n(&control->awake, before, after, True, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

Bool idle_thread_awake(ULong late_ns)
{
   ULong before = __atomic_load_n(&control->awake, __ATOMIC_RELAXED);
   while (!change(&before, before + ONE_AWAKE)) {
   }
   if (before >= ONE_AWAKE) {
      return False;
   }
   if (before != 0) { /* 0: the first thread of the recording */
      ULong idle_ns = monus(wall_ns(), before * NS_PER_US + late_ns);
      __atomic_fetch_add(&control->idle_ns, idle_ns, __ATOMIC_RELAXED);
   }
   return True;
}

void idle_thread_away(void)
{
   ULong before = __atomic_load_n(&control->awake, __ATOMIC_RELAXED), after;
   do {
      if (before < ONE_AWAKE) {
         return; /* its process was counted out already */
      }
      after = before - ONE_AWAKE;
      if (after < ONE_AWAKE) {
         after = wall_ns() / NS_PER_US & SINCE_MASK;
      }
   } while (!change(&before, after));
}
