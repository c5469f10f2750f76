/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The tool's options. Numbers are decimal. */

#ifndef ISOREC_OPTIONS_H
#define ISOREC_OPTIONS_H

#include "core.h"

#define NOBODY (-1LL)

typedef struct {
   const HChar* spool;      /* --spool: the directory with `control` and `fifo` */
   Long epoch_instructions; /* --epoch-instructions: instructions in one epoch; 0: time is counted by prices (prices.h) */
   Long epoch_ns;           /* --epoch-ns: the time of one epoch */
   Long epoch_units;        /* units of a thread's clock in one epoch: instructions, or by prices UNITS_PER_NS a nanosecond */
   Long uid;                /* --uid of the first thread */
   Long started_by;         /* --started-by: uid of the thread that called execve, or NOBODY */
   Long start_ns;           /* --start-ns: virtual time at which the first thread starts */
   const HChar* program;    /* --program: for the launcher, see there */
   const HChar* count_mix;  /* --count-mix: a file for the amounts of work by kind, one line for each program; or NULL */
   const HChar* argv0;      /* --argv0: the program's argv[0]; NULL: its path */
} Options;

extern Options options;

/* Whether time is counted by prices, and not by instructions of equal length. */
static inline Bool has_prices(void) { return options.epoch_instructions == 0; }

/* Registers the options with the core. */
void options_declare(void);

/* Ends the process with a message if something is missing. */
void options_check(void);

/* Sets an option for the program that an execve of this process will start. `prefix` is its name and `=`. */
void options_set_for_exec(const HChar* prefix, const HChar* value);
void options_set_number_for_exec(const HChar* prefix, ULong value);

#endif
