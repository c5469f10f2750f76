/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One thread of the traced program: its clock, its epoch, its filter and its chunk. */

#ifndef ISOREC_THREAD_H
#define ISOREC_THREAD_H

#include "filter.h"
#include "options.h"
#include "prices.h"
#include "spool.h"

#define SYSCALL_ARGUMENTS 6
/* As much memory as a second-level TLB and cache reach, about. */
#define RECENT_PAGES FRONT_SLOTS
#define NO_UID (-1LL)

/* The pages of a file that a thread read or wrote last. */
typedef struct {
   ULong file; /* File.number */
   ULong last_page;
   ULong epoch;
   Bool write;
} Transfer;

/* A system call between its entry and its return. */
typedef struct {
   UWord arguments[SYSCALL_ARGUMENTS];
   Bool away;   /* the call has begun and not returned */
   UInt missed; /* how often others found at the end of their turns that it is away for no reason, see thread_due */
   Bool blocks; /* it found nothing to return with at once, so it sleeps */
   ULong entered_wall_ns;
   ULong entered_cpu_ns;      /* this process's processor time */
   ULong entered_computed_ns; /* what all threads had computed when the call began */
   Long child;                /* the uid announced for what the call starts, or NO_UID */
} Pending;

typedef struct {
   ThreadId tid;
   Filter filter;
   Chunk chunk;
   ULong boundary; /* the time in units at which the epoch ends; 0 before the first instruction */
   ULong due;      /* the time in units at which thread_due is, at the latest at the boundary */
   ULong instructions; /* that ran up to the beginning of its turn */
   Long counter;       /* while another thread runs (see thread_counter) */
   ULong tick;                 /* the one it is in, from 1 */
   ULong recent[RECENT_PAGES]; /* pages with the tick of their last touch through the filter, by their low bits */
   ULong epoch;
   ULong sent_at_epoch;
   ULong published_ns;      /* computing time that is in the control block's sum */
   ULong layout_generation; /* the process's when this thread last looked */
   ULong order_floor_ns;    /* nothing that follows comes before this, in the order of all threads */
   ULong block_order_ns;    /* where the touches that were not handed out began, in that order */
   UInt uid;
   Long started_by;
   Origin origin;
   ULong start_ns; /* virtual time at which the thread began */
   ULong idle_ns;  /* how long it has slept */
   Pending pending;
   Transfer transfer;
} Thread;

/* Of the running thread, kept by the translated code in one word: above COUNT_BITS the units up to `due`, counted down; below
   them the instructions of this turn, counted up. Negative: call thread_due. */
extern Long thread_counter;
#define COUNT_BITS 32

/* What the translated code subtracts for so many units and instructions. */
static inline ULong counter_step(ULong units, ULong instructions) { return (units << COUNT_BITS) - instructions; }

/* Registers for the core's events of threads and forks. */
void threads_track(void);

/* The thread begins a system call, and is back from it. */
void thread_leaves(Thread* thread);
void thread_is_back(Thread* thread);

/* Makes room for all threads; after the options are known. */
void threads_create(void);

/* The thread that is running from now on, with its front; NULL if it is none that is recorded. */
Thread* thread_run(ThreadId tid);

/* The running thread, as the translated code calls. */
Thread* thread_running(void);

/* A load or store of a page that may be new; `page` is its number. */
void thread_touch(Thread* thread, ULong page, Bool write);

/* [address, address + bytes) was touched. */
void thread_touch_range(Thread* thread, Addr address, SizeT bytes, Bool write);

/* The kernel touched [address, address + bytes) for the thread. */
void thread_kernel_touch(Thread* thread, Addr address, SizeT bytes, Bool write);

/* The thread read or wrote `pages` pages of a file from `page` on. What it touched before is written first. */
void thread_transfer(Thread* thread, const File* file, ULong page, ULong pages, Bool write);

/* The first instruction, the first of a new epoch, or the end of the thread's turn. */
void thread_due(Thread* thread);

/* Writes an event; what was touched before it is written first. */
void thread_event(Thread* thread, const Record* record);

/* Writes a change of the process's memory layout. It comes after whatever any thread has begun to touch, because the others
   have used the old layout until now. */
void thread_layout_event(Thread* thread, const Record* record);

/* Sends everything, finished epoch or not. */
void thread_flush(Thread* thread);

/* Before a system call that sleeps: do not sit on what is recorded. */
void thread_before_sleep(Thread* thread);

/* Memory of [start, end) (pages) is another one from now on. */
void thread_forget(Thread* thread, ULong start, ULong end);

/* The thread has done `count` pieces of work of this kind, beyond what the translated code counts by itself. */
void thread_works(Thread* thread, Work kind, ULong count);

/* Says how much time the thread has computed. */
void thread_tell_clock(Thread* thread);

/* The thread's point in virtual time: its beginning, what it has computed and its sleep. */
ULong thread_now_ns(const Thread* thread);

/* Lets the others know how far this thread got. */
void thread_publish(Thread* thread);

/* The thread was woken after it had slept for `slept_ns` by its own timeout (0: somebody woke it). It goes on when that time
   is over, and not before what the others have done already. */
void thread_woken(Thread* thread, ULong slept_ns);

/* All threads that are left end with the process. */
void threads_end(void);

#endif
