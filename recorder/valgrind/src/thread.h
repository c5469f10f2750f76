/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One thread of the traced program: its clock, its epoch, its filter and its chunk. */

#ifndef ISOREC_THREAD_H
#define ISOREC_THREAD_H

#include "filter.h"
#include "options.h"
#include "prices.h"
#include "spool.h"

#define SYSCALL_ARGUMENTS 6
/* About the memory that a second-level TLB and cache cover. */
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
   Bool away;   /* the call has started and not returned */
   UInt missed; /* number of turn ends at which others found it away for no reason, see thread_due */
   Bool blocks; /* it could not return at once, so it sleeps */
   ULong entered_wall_ns;
   ULong entered_idle_ns;     /* the idle clock */
   ULong entered_computed_ns; /* computed time of all threads when the call started */
   ULong timeout_ns;          /* for which the call waits at most, or NO_TIMEOUT */
   Long child;                /* the uid announced for the thread that the call starts, or NO_UID */
} Pending;

typedef struct {
   ThreadId tid;
   Filter filter;
   Chunk chunk;
   ULong boundary; /* the time in units at which the epoch ends; 0 before the first instruction */
   ULong due;      /* the time in units of the next thread_due, at the latest the boundary */
   ULong instructions; /* instructions up to the start of its turn */
   Long counter;       /* saved while another thread runs (see thread_counter) */
   ULong tick;                 /* the current one, from 1 */
   ULong recent[RECENT_PAGES]; /* pages with the tick of their last touch through the filter, by their low bits */
   ULong epoch;
   ULong sent_at_epoch;
   ULong published_ns;      /* computed time already in the control block's sum */
   ULong layout_generation; /* the process's at this thread's last check */
   ULong order_floor_ns;    /* lower bound for later records, in the order of all threads */
   ULong block_order_ns;    /* start of the touches not handed out yet, in that order */
   UInt uid;
   Long started_by;
   Origin origin;
   ULong start_ns; /* virtual time at which the thread began */
   ULong idle_ns;  /* time that it has slept */
   Bool asleep;    /* not counted by the idle clock as awake */
   Pending pending;
   Transfer transfer;
} Thread;

/* Counter of the running thread, kept by the translated code in one word: above COUNT_BITS the units up to `due`, counted
   down; below them the instructions of this turn, counted up. If negative, call thread_due. */
extern Long thread_counter;
#define COUNT_BITS 32

/* What the translated code subtracts for these units and instructions. */
static inline ULong counter_step(ULong units, ULong instructions) { return (units << COUNT_BITS) - instructions; }

/* Registers for the core's events of threads and forks. */
void threads_track(void);

/* The thread enters a system call, and has returned from it. */
void thread_leaves(Thread* thread);
void thread_is_back(Thread* thread);

/* Allocates space for all threads; call after reading the options. */
void threads_create(void);

/* Sets the running thread, with its front; NULL if it is not recorded. */
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

/* Called at the first instruction, the first of a new epoch, or the end of the thread's turn. */
void thread_due(Thread* thread);

/* Writes an event, after the touches before it. */
void thread_event(Thread* thread, const Record* record);

/* Writes a change of the process's memory layout. It comes after whatever any thread has begun to touch, because the others
   have used the old layout until now. */
void thread_layout_event(Thread* thread, const Record* record);

/* Sends everything, finished epoch or not. */
void thread_flush(Thread* thread);

/* Call before a system call that sleeps: sends recorded data early. */
void thread_before_sleep(Thread* thread);

/* The memory of [start, end) (pages) was replaced. */
void thread_forget(Thread* thread, ULong start, ULong end);

/* Counts `count` pieces of work of this kind, in addition to those that the translated code counts. */
void thread_works(Thread* thread, Work kind, ULong count);

/* Reports the computed time of the thread. */
void thread_tell_clock(Thread* thread);

/* The thread's point in virtual time: its start, its computed time and its sleep. */
ULong thread_now_ns(const Thread* thread);

/* Publishes this thread's point in virtual time. */
void thread_publish(Thread* thread);

/* The thread falls asleep, or becomes a program that is not recorded. */
void thread_asleep(Thread* thread);

/* It is awake again, `late_ns` after its own timeout had expired. Returns whether all others sleep. */
Bool thread_awake(Thread* thread, ULong late_ns);

/* The thread woke after it had slept for `slept_ns` of virtual time. It continues when that time is over, and not before the
   work that the others have done already. */
void thread_woken(Thread* thread, ULong slept_ns);

/* All threads that are left end with the process. */
void threads_end(void);

#endif
