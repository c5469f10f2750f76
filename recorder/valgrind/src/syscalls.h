/* SPDX-License-Identifier: GPL-2.0-or-later */

/* System calls of the program: which mappings they change, whom they start, how long they sleep, which memory the kernel
   touches. */

#ifndef ISOREC_SYSCALLS_H
#define ISOREC_SYSCALLS_H

#include "thread.h"

/* Registers for the core's events. */
void syscalls_track(void);

/* Tells the recorder of a thread to come, and sends it all before the other can say anything. Its uid. */
UInt syscalls_announce(Thread* thread, Origin origin);

#endif
