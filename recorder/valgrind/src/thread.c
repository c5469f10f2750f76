/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Threads: scheduling, epochs and their ends, the order of records. */

#include "thread.h"
#include "idle.h"
#include "layout.h"
#include "pub_tool_guest.h"
#include "pub_tool_machine.h"
#include "pub_tool_tooliface.h"

/* Number of epochs after which a chunk is sent even if it is not full, so that the recorder can order threads. */
#define EPOCHS_PER_CHUNK 64
/* Number of epochs after which a thread sends its chunk before it sleeps. */
#define EPOCHS_BEFORE_SLEEP 4
/* Length of a thread's turn. Valgrind's own turns are 100,000 blocks of code, some 0.15 ms. That is too long: a thread that
   has just woken another is often still away when that one has answered, so it never waits for it as it would on its own
   processor. With shorter turns threads stay closer in step, and switches cost more. */
#define TURN_NS 50000
/* Time for which a thread at the end of its turn lets the machine run one that is behind, and the number of times per call. */
#define NAP_NS 50000
#define NAPS 40
/* The longest turn in units, so that its instructions, each of at least one unit, fit below COUNT_BITS. */
#define TURN_UNITS (1LL << 30)
/* Distant pages are recognised by the pages that a thread touches in a tick. A tick is a number of instructions, about a millisecond,
   and not a time: otherwise the price of touches would bring the next tick nearer, and with it more touches. */
#define TICK_INSTRUCTIONS 8000000ULL
/* Largest delay of the end of a tick. */
#define TICK_SLACK (TICK_INSTRUCTIONS / 16)
#define TICK_BITS 24
#define TICK_MASK ((1ULL << TICK_BITS) - 1)
/* Largest count of a piece of work, so that the counter does not overflow. */
#define WORK_UNITS (1ULL << 29)

Long thread_counter;

static Thread** threads; /* by ThreadId */
static Thread* running;

/* Number of changes of this process's memory layout, and the latest position in the order of such a change. A thread that
   touches a new page after a change by another thread must come after it in the trace, whatever its own clock. */
static ULong layout_generation;
static ULong layout_order_ns;
/* Whether this process ever had a second thread, and its current number of threads. */
static Bool has_threads;
static UInt nr_threads;

static Long* counter_of(Thread* thread) { return thread == running ? &thread_counter : &thread->counter; }

static Long counted(const Thread* thread) { return thread == running ? thread_counter : thread->counter; }

static ULong units_of(const Thread* thread) { return thread->due - (ULong)(counted(thread) >> COUNT_BITS); }

static ULong instructions_of(const Thread* thread) { return thread->instructions + (UInt)counted(thread); }

/* Restarts the counter, up to `due`. */
static void count_up_to(Thread* thread, ULong due)
{
   Long units = (Long)(due - units_of(thread));
   thread->instructions = instructions_of(thread);
   thread->due = due;
   *counter_of(thread) = (Long)((ULong)units << COUNT_BITS);
}

static ULong computed_ns(const Thread* thread)
{
   unsigned __int128 product = (unsigned __int128)units_of(thread) * (ULong)options.epoch_ns;
   return (ULong)(product / (ULong)options.epoch_units);
}

void thread_works(Thread* thread, Work kind, ULong count)
{
   if (thread == NULL) {
      return;
   }
   work_done[kind] += count;
   if (!has_prices()) {
      return;
   }
   *counter_of(thread) -= (Long)(min_of(prices[kind] * count, WORK_UNITS) << COUNT_BITS);
   if (counted(thread) >> COUNT_BITS < -TURN_UNITS) {
      count_up_to(thread, units_of(thread) - 1); /* still due */
   }
}

ULong thread_now_ns(const Thread* thread)
{
   return thread->start_ns + thread->idle_ns + computed_ns(thread);
}

/* The current position in the order of all threads. */
static ULong order_ns(const Thread* thread)
{
   return max_of(thread->order_floor_ns, thread_now_ns(thread));
}

static void raise(ULong* shared, ULong value)
{
   ULong before = __atomic_load_n(shared, __ATOMIC_RELAXED);
   while (before < value && !__atomic_compare_exchange_n(shared, &before, value, True, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
   }
}

void thread_publish(Thread* thread)
{
   ULong ns = computed_ns(thread);
   if (ns != thread->published_ns) {
      __atomic_fetch_add(&control->computed_ns, ns - thread->published_ns, __ATOMIC_RELAXED);
      thread->published_ns = ns;
      raise(&control->frontier_ns, thread_now_ns(thread));
   }
}

/* Starts the running thread's turn, which lasts to the end of its epoch if it is the only thread. */
static void begin_turn(Thread* thread)
{
   ULong turn = (ULong)((unsigned __int128)TURN_NS * (ULong)options.epoch_units / (ULong)options.epoch_ns) + 1;
   ULong longest = nr_threads > 1 ? min_of(turn, TURN_UNITS) : TURN_UNITS;
   ULong due = min_of(thread->boundary, units_of(thread) + longest);
   if (has_prices()) {
      /* An instruction costs at least its own price, so this is late by at most the slack. */
      ULong instructions = max_of(monus(thread->tick * TICK_INSTRUCTIONS, instructions_of(thread)), TICK_SLACK);
      due = min_of(due, units_of(thread) + instructions * prices[WORK_INSTRUCTION]);
   }
   count_up_to(thread, due);
}

Thread* thread_running(void)
{
   return running;
}

Thread* thread_run(ThreadId tid)
{
   Thread* thread = tid < VG_N_THREADS ? threads[tid] : NULL;
   if (thread == running) {
      return thread;
   }
   if (running != NULL) {
      running->counter = thread_counter;
      thread_publish(running); /* threads that it woke continue at its time */
   }
   running = thread;
   front_clear();
   if (thread != NULL) {
      thread_counter = thread->counter;
      begin_turn(thread);
   }
   return thread;
}

static Thread* create(ThreadId tid, UInt uid, Origin origin, Long started_by, ULong start_ns)
{
   Thread* thread = VG_(calloc)("isorec.thread", 1, sizeof *thread);
   filter_create(&thread->filter);
   chunk_create(&thread->chunk, uid);
   thread->tid = tid;
   thread->tick = 1;
   thread->layout_generation = layout_generation;
   thread->order_floor_ns = start_ns;
   thread->block_order_ns = start_ns;
   thread->uid = uid;
   thread->started_by = started_by;
   thread->origin = origin;
   thread->start_ns = start_ns;
   thread->pending.child = NO_UID;
   thread->asleep = origin != ORIGIN_EXEC; /* a program that replaces another one is counted already */
   thread_awake(thread, 0);
   threads[tid] = thread;
   nr_threads++;
   return thread;
}

static void destroy(Thread* thread)
{
   if (running == thread) {
      running = NULL;
   }
   threads[thread->tid] = NULL;
   nr_threads--;
   filter_destroy(&thread->filter);
   VG_(free)(thread);
}

static void push(Thread* thread, const Record* record)
{
   Stamp stamp = { thread->epoch, order_ns(thread) };
   chunk_push(&thread->chunk, stamp, record);
}

static void push_run(void* context, ULong page, ULong pages, Bool write, Bool kernel)
{
   Thread* thread = context;
   Stamp stamp = { thread->epoch, thread->block_order_ns };
   chunk_push_row(&thread->chunk, stamp, page, pages, write, kernel);
}

static void push_initial(void* context, const Record* record)
{
   push(context, record);
}

/* Writes the touches of the current epoch that are not written yet. */
static void hand_out(Thread* thread)
{
   filter_hand_out(&thread->filter, push_run, thread);
}

static void send(Thread* thread)
{
   thread->sent_at_epoch = thread->epoch;
   chunk_send(&thread->chunk);
}

static void say_hello(Thread* thread)
{
   ULong by = (ULong)(thread->started_by + 1), pid = (ULong)VG_(getpid)(), tid = (ULong)VG_(gettid)();
   push(thread, &(Record){ RECORD_HELLO, 6, { RECORD_VERSION, pid, tid, by, thread->origin, thread->start_ns },
                           program_path() });
   send(thread);
}

static void begin_first_epoch(Thread* thread)
{
   thread->boundary = (ULong)options.epoch_units;
   say_hello(thread);
   if (thread->origin == ORIGIN_PROGRAM || thread->origin == ORIGIN_EXEC) {
      layout_initial(push_initial, thread);
      thread_works(thread, WORK_EXEC, 1);
   }
}

static void begin_next_epoch(Thread* thread)
{
   hand_out(thread);
   filter_next_epoch(&thread->filter);
   thread->epoch = units_of(thread) / (ULong)options.epoch_units;
   thread->boundary = (thread->epoch + 1) * (ULong)options.epoch_units;
   thread->block_order_ns = order_ns(thread);
   thread_publish(thread);
   if (thread->epoch - thread->sent_at_epoch >= EPOCHS_PER_CHUNK) {
      send(thread);
   }
}

/* Makes the core switch threads, as if all blocks of this turn were done. */
static void yield(const Thread* thread)
{
   static const UInt blocks_left = 0;
   VG_(set_shadow_regs_area)(thread->tid, 0, offsetof(VexGuestArchState, host_EvC_COUNTER), sizeof blocks_left,
                             (const UChar*)&blocks_left);
}

/* A call that does not wait still releases Valgrind's lock. If the machine then has no processor for the thread, the others
   get ahead of it, and it misses waits that it would have had. So they wait a little, with the lock held: threads that are
   behind only need a processor to queue for it. A thread in the queue is not seen here twice. */
static void wait_for_those_behind(const Thread* thread)
{
   struct vki_timespec nap = { 0, NAP_NS };
   ULong now_ns = thread_now_ns(thread);
   for (ThreadId tid = 0; tid < VG_N_THREADS; tid++) {
      Thread* other = threads[tid];
      if (other == NULL || other == thread || !other->pending.away || other->pending.blocks ||
          thread_now_ns(other) + TURN_NS > now_ns || other->pending.missed > NAPS) {
         continue;
      }
      if (other->pending.missed++ > 0) {
         system_call(__NR_nanosleep, (Word)&nap, 0, 0, 0, 0);
         return;
      }
   }
}

void thread_leaves(Thread* thread)
{
   thread->pending.away = True;
   thread->pending.blocks = False;
   thread->pending.missed = 0;
   thread->pending.child = NO_UID;
}

void thread_is_back(Thread* thread)
{
   thread->pending.away = False;
}

void thread_due(Thread* thread)
{
   if (thread->boundary == 0) {
      begin_first_epoch(thread);
   } else if (units_of(thread) >= thread->boundary) {
      begin_next_epoch(thread);
   }
   if (has_prices() && instructions_of(thread) >= thread->tick * TICK_INSTRUCTIONS) {
      thread->tick = instructions_of(thread) / TICK_INSTRUCTIONS + 1;
      front_clear(); /* so that the touches of this tick are seen */
   }
   if (nr_threads > 1) {
      wait_for_those_behind(thread);
      yield(thread);
   }
   begin_turn(thread);
}

/* Another thread changed the layout: earlier touches come before the change, later ones after it. */
static void see_layout(Thread* thread)
{
   hand_out(thread);
   thread->layout_generation = layout_generation;
   thread->order_floor_ns = max_of(thread->order_floor_ns, layout_order_ns);
   thread->block_order_ns = order_ns(thread);
}

/* Cost of a touch in caches and TLBs: whether the page is among those of this tick, whatever the lengths of epochs and turns. */
static void price_touch(Thread* thread, ULong page)
{
   ULong tag = page << TICK_BITS | (thread->tick & TICK_MASK);
   ULong* recent = &thread->recent[page % RECENT_PAGES];
   if (*recent != tag) {
      thread_works(thread, (*recent & TICK_MASK) == (tag & TICK_MASK) ? WORK_FAR_TOUCH : WORK_FIRST_TOUCH, 1);
      *recent = tag;
   }
}

static void touch(Thread* thread, ULong page, Bool write, Bool kernel)
{
   if (layout_generation != thread->layout_generation) {
      see_layout(thread);
   }
   if (has_prices()) {
      price_touch(thread, page);
   }
   filter_touch(&thread->filter, page, write, kernel);
}

static void touch_range(Thread* thread, Addr address, SizeT bytes, Bool write, Bool kernel)
{
   const Addr* front = write ? front_written : front_touched;
   if (bytes == 0) {
      return;
   }
   for (ULong page = address >> PAGE_BITS; page <= (address + bytes - 1) >> PAGE_BITS; page++) {
      if (front[front_slot(page << PAGE_BITS)] != page << PAGE_BITS) {
         touch(thread, page, write, kernel);
      }
   }
}

void thread_touch(Thread* thread, ULong page, Bool write)
{
   touch(thread, page, write, False);
}

void thread_touch_range(Thread* thread, Addr address, SizeT bytes, Bool write)
{
   touch_range(thread, address, bytes, write, False);
}

void thread_kernel_touch(Thread* thread, Addr address, SizeT bytes, Bool write)
{
   touch_range(thread, address, bytes, write, True);
}

void thread_transfer(Thread* thread, const File* file, ULong page, ULong pages, Bool write)
{
   Stamp stamp = { thread->epoch, order_ns(thread) };
   hand_out(thread);
   chunk_push_transfer(&thread->chunk, stamp, file, page, pages, write);
   thread->block_order_ns = stamp.order_ns;
}

void thread_event(Thread* thread, const Record* record)
{
   hand_out(thread);
   push(thread, record);
   thread->block_order_ns = order_ns(thread);
}

void thread_layout_event(Thread* thread, const Record* record)
{
   thread_publish(thread);
   thread->order_floor_ns = max_of(thread->order_floor_ns, __atomic_load_n(&control->frontier_ns, __ATOMIC_RELAXED));
   thread_event(thread, record);
   thread->order_floor_ns = order_ns(thread) + 1;
   layout_order_ns = max_of(layout_order_ns, thread->order_floor_ns);
   if (layout_generation++ == thread->layout_generation) {
      thread->layout_generation++; /* no other thread made a change in between */
   }
   if (has_threads) {
      send(thread); /* otherwise later rows of other threads would be written before it arrives */
   }
}

void thread_flush(Thread* thread)
{
   hand_out(thread);
   send(thread);
}

void thread_before_sleep(Thread* thread)
{
   if (!chunk_is_empty(&thread->chunk) && thread->epoch - thread->sent_at_epoch >= EPOCHS_BEFORE_SLEEP) {
      send(thread);
   }
}

void thread_forget(Thread* thread, ULong start, ULong end)
{
   filter_forget(&thread->filter, start, end);
}

void thread_asleep(Thread* thread)
{
   if (!thread->asleep) {
      thread->asleep = True;
      idle_thread_away();
   }
}

Bool thread_awake(Thread* thread, ULong late_ns)
{
   if (!thread->asleep) {
      return False;
   }
   thread->asleep = False;
   return idle_thread_awake(late_ns);
}

void thread_woken(Thread* thread, ULong slept_ns)
{
   ULong now_ns = thread_now_ns(thread);
   ULong ns = max_of(__atomic_load_n(&control->frontier_ns, __ATOMIC_RELAXED), now_ns + slept_ns) - now_ns;
   if (ns > 0) {
      thread_event(thread, &(Record){ RECORD_IDLE, 1, { ns }, NULL });
      thread->idle_ns += ns;
      thread->block_order_ns = order_ns(thread);
      thread_publish(thread);
   }
}

void thread_tell_clock(Thread* thread)
{
   push(thread, &(Record){ RECORD_CLOCK, 2, { computed_ns(thread), instructions_of(thread) }, NULL });
}

static void end(Thread* thread)
{
   thread_asleep(thread);
   if (thread->boundary == 0) { /* it never ran: its clone failed */
      chunk_close(&thread->chunk);
   } else {
      thread_publish(thread);
      hand_out(thread);
      thread_tell_clock(thread);
      thread_event(thread, &(Record){ RECORD_END, 1, { instructions_of(thread) }, NULL });
      chunk_close(&thread->chunk);
   }
   destroy(thread);
}

/* A thread is created, within its parent's clone; or the first of the program, without a parent. */
static void on_create(ThreadId parent_tid, ThreadId tid)
{
   Thread* parent = parent_tid == VG_INVALID_THREADID ? NULL : threads[parent_tid];
   if (parent == NULL) {
      Origin origin = options.started_by == NOBODY ? ORIGIN_PROGRAM : ORIGIN_EXEC;
      create(tid, (UInt)options.uid, origin, options.started_by, (ULong)options.start_ns);
      return;
   }
   UInt uid = parent->pending.child == NO_UID ? spool_new_uid() : (UInt)parent->pending.child;
   has_threads = True;
   create(tid, uid, ORIGIN_THREAD, parent->uid, thread_now_ns(parent));
   if (parent == running) {
      begin_turn(parent); /* it is no longer the only thread */
   }
}

static void on_exit(ThreadId tid)
{
   Thread* thread = threads[tid];
   if (thread == NULL) {
      return;
   }
   if (thread->boundary != 0) {
      thread_run(tid);
   }
   end(thread);
}

static void on_start(ThreadId tid, ULong blocks)
{
   (void)blocks;
   Thread* thread = thread_run(tid);
   if (thread != NULL) {
      thread_publish(thread);
   }
}

/* The only thread of a forked process starts again with the uid that its parent announced. The other threads exist only in
   the parent, whose chunks stay unchanged. */
static void on_fork_in_child(ThreadId tid)
{
   Thread* parent = thread_run(tid);
   if (parent == NULL) {
      return;
   }
   UInt uid = parent->pending.child == NO_UID ? spool_new_uid() : (UInt)parent->pending.child;
   Long started_by = parent->uid;
   ULong start_ns = thread_now_ns(parent);
   for (ThreadId other = 0; other < VG_N_THREADS; other++) {
      if (threads[other] != NULL) {
         chunk_abandon(&threads[other]->chunk);
         destroy(threads[other]);
      }
   }
   VG_(memset)(work_done, 0, sizeof work_done);
   Thread* child = create(tid, uid, ORIGIN_FORK, started_by, start_ns);
   child->boundary = (ULong)options.epoch_units;
   thread_run(tid);
   say_hello(child);
}

void threads_track(void)
{
   VG_(track_pre_thread_ll_create)(on_create);
   VG_(track_pre_thread_ll_exit)(on_exit);
   VG_(track_start_client_code)(on_start);
   VG_(atfork)(NULL, NULL, on_fork_in_child);
}

void threads_create(void)
{
   threads = VG_(calloc)("isorec.threads", VG_N_THREADS, sizeof *threads);
   front_clear();
}

void threads_end(void)
{
   for (ThreadId tid = 0; tid < VG_N_THREADS; tid++) {
      if (threads[tid] != NULL) {
         on_exit(tid);
      }
   }
   mix_write();
}
