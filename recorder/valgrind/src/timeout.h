/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The time for which a system call asks to wait at most. */

#ifndef ISOREC_TIMEOUT_H
#define ISOREC_TIMEOUT_H

#include "core.h"

#define NO_TIMEOUT (~0ULL)

/* The timeout in the arguments of a call, in ns from now; NO_TIMEOUT if it has none, or one that cannot be read. Call it before
   the call: the kernel changes some timeouts to what is left of them. */
ULong timeout_of(UInt number, const UWord* arguments);

#endif
