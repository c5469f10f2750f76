/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Sleep: which calls wait, and how much virtual time that takes. */

#ifndef ISOREC_SLEEP_H
#define ISOREC_SLEEP_H

#include "thread.h"

/* Whether a system call of this number may wait for something. */
Bool sleep_is_possible(UInt number);

/* Such a call starts. */
void sleep_begin(Thread* thread, UInt number);

/* It ended with `result`, negative error numbers as in the kernel. */
void sleep_end(Thread* thread, UInt number, Word result);

#endif
