/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The idle clock: the wall time in which all threads of all recorded processes slept. Only the program's own waiting makes it
   proceed. What the engine or another program's load makes longer is time in which a thread is awake. */

#ifndef ISOREC_IDLE_H
#define ISOREC_IDLE_H

#include "core.h"

/* The idle clock, in ns. */
ULong idle_clock_ns(void);

/* A thread starts, or wakes `late_ns` after its own timeout had expired (0: it was not its own timeout that woke it). The delay
   is no idle time: it is how long the machine had no processor for the thread. Returns whether all others sleep. */
Bool idle_thread_awake(ULong late_ns);

/* A thread falls asleep, ends, or becomes a program that is not recorded. */
void idle_thread_away(void);

/* The monotonic clock of the kernel, in ns. */
ULong wall_ns(void);

#endif
