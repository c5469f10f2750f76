/* SPDX-License-Identifier: GPL-2.0-or-later */

/* System calls of the program: changes of mappings, new threads and processes, sleep times, memory that the kernel
   touches. */

#ifndef ISOREC_SYSCALLS_H
#define ISOREC_SYSCALLS_H

#include "thread.h"

/* Registers for the core's events. */
void syscalls_track(void);

/* Announces a new thread to the recorder, and sends all records before that thread can send any. Returns its uid. */
UInt syscalls_announce(Thread* thread, Origin origin);

#endif
