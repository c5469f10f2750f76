/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Prices of a program's work: the clock of a thread is the sum of these prices. */

#ifndef ISOREC_PRICES_H
#define ISOREC_PRICES_H

#include "core.h"

/* Kinds of work. An instruction counts as one and once more for each other kind that it belongs to. */
typedef enum {
   /* Counted at translation. */
   WORK_INSTRUCTION,
   WORK_STRING_BYTE, /* bytes moved or filled by `rep movs` and `rep stos`; these instructions belong to no other kind */
   WORK_LOAD,
   WORK_CHASE, /* a load whose address depends on a load before it in the block */
   WORK_STORE,
   WORK_BRANCH,   /* conditional */
   WORK_LOADED_BRANCH, /* the same, if the condition depends on a load before it in the block */
   WORK_INDIRECT, /* a jump or call to an address that is not in the code; not a return */
   WORK_VECTOR,   /* floating point, and arithmetic on vector registers */
   WORK_MULTIPLY, /* of integers */
   WORK_DIVIDE,   /* of any kind, and square roots */
   WORK_ATOMIC,
   WORK_TRANSLATED, /* end of these */
   /* Counted where the tool is called anyway. */
   WORK_NEW_CODE = WORK_TRANSLATED, /* a block that has not run before */
   WORK_FIRST_TOUCH,                /* of a page, in a tick: some millions of instructions (thread.c) */
   WORK_FAR_TOUCH,                  /* of a page that another one has evicted from the 4096 near ones of this tick */
   WORK_CALL,                       /* system calls; the kinds below belong to no other kind */
   WORK_FILE_CALL,                  /* with a path */
   WORK_MAP_CALL,                   /* that changes the memory layout */
   WORK_SOCKET_CALL,                /* that moves data through a socket */
   WORK_START_THREAD,
   WORK_FORK,
   WORK_EXEC, /* counted by the program that it starts */
   WORK_COPIED_BYTE, /* that a system call moved */
   WORK_KINDS,
} Work;

/* Units of time in a nanosecond. */
#define UNITS_PER_NS 256

extern const HChar* const work_names[WORK_KINDS];
extern const UInt prices[WORK_KINDS]; /* in units */

/* The kind of a system call; WORK_KINDS: it costs nothing, because natively it does not enter the kernel. */
Work work_of_call(UInt number, UWord first_argument);

/* Whether the call's result is the number of bytes moved. */
Bool call_moves_bytes(UInt number);

/* For --count-mix: sums of this process, and their output. */
extern ULong work_done[WORK_KINDS];
void mix_write(void);

#endif
