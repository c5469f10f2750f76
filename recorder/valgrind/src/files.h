/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Files that the program reads and writes through descriptors: their pages are in the page cache, not in its memory. */

#ifndef ISOREC_FILES_H
#define ISOREC_FILES_H

#include "thread.h"

/* Call after a successful system call: reports the pages of files that it read and wrote, if any. `bytes` is its result,
   `thread->pending.arguments` has its arguments. */
void files_used(Thread* thread, UInt number, UWord bytes);

/* A descriptor was closed: its file may be deleted, and its inode reused. */
void files_closed(void);

#endif
