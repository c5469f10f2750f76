/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Sleep in virtual time, by the rules of docs/use/recording.md#time: a thread that slept continues at the latest point that
   any thread has reached, and not before its own sleep is over. Its sleep is what the idle clock has counted meanwhile, and
   never more than the call asked for.

   Valgrind runs one thread at a time, which breaks assumptions of these rules:

   - A call that took long did not always sleep. A `read` that has its data at once still releases Valgrind's lock, and
     returns when the others have had their turns. So each call is checked before whether it would wait, with `poll` and the
     like, without a timeout. Only then can it have slept.
   - Others compute at a fraction of their speed, so the wall time of their work is no measure of a sleep next to it. If they
     hardly computed and all sleep again when the timeout expires, the sleep lasts as long as the call asked for.
   - A thread waits for a processor on a busy machine, before it computes or after its timeout has expired. In the first case
     it is awake, in the second the timeout limits its sleep. */

#include "sleep.h"
#include "idle.h"
#include "timeout.h"

/* Calls that took less wall time did not sleep: their data were available. */
#define SLEPT_NS 100000
/* A sleep in which all threads together computed for less than this fraction of it was quiet. Valgrind's slowdown is far
   smaller than that. */
#define BUSY_FRACTION 64
/* A thread that is counted as awake and computes less than this fraction of so long a sleep was killed, or waits in a call that
   sleep_is_possible does not know. A busy machine gives each thread more. */
#define STUCK_FRACTION 4096
#define STUCK_NS 1000000000ULL

/* From the kernel's include/uapi/linux/{futex,wait,socket,poll}.h. */
#define FUTEX_COMMAND_MASK 0x7f
#define FUTEX_WAIT_COMMAND 0
#define FUTEX_WAIT_BITSET_COMMAND 9
#define WAIT_NO_HANG 1
#define WAIT_EXITED 4
#define WAIT_KEEP 0x01000000 /* WNOWAIT: leave the child in its state */
#define WAIT_ANY 0           /* P_ALL, P_PID, P_PGID */
#define WAIT_PID 1
#define WAIT_GROUP 2
#define MESSAGE_NO_WAIT 0x40 /* MSG_DONTWAIT */
#define TIMED_OUT 110 /* ETIMEDOUT */
#define SIGINFO_BYTES 128
#define SET_BYTES 128 /* a select set of FD_SETSIZE descriptors */
#define SET_BITS (SET_BYTES * 8)
#define POLLED 256    /* with more descriptors a call counts as waiting */

Bool sleep_is_possible(UInt number)
{
   switch (number) {
   case __NR_read:
   case __NR_poll:
   case __NR_readv:
   case __NR_select:
   case __NR_pause:
   case __NR_nanosleep:
   case __NR_connect:
   case __NR_accept:
   case __NR_recvfrom:
   case __NR_recvmsg:
   case __NR_wait4:
   case __NR_rt_sigtimedwait:
   case __NR_rt_sigsuspend:
   case __NR_futex:
   case __NR_clock_nanosleep:
   case __NR_epoll_wait:
   case __NR_waitid:
   case __NR_pselect6:
   case __NR_ppoll:
   case __NR_epoll_pwait:
   case __NR_accept4:
      return True;
   default:
      return False;
   }
}

/* --- whether a call would wait --- */

static Bool is_readable(const void* address, SizeT bytes)
{
   return VG_(am_is_valid_for_client)((Addr)address, bytes, VKI_PROT_READ);
}

static Bool may_wait(UWord descriptor)
{
   Word flags = system_call(__NR_fcntl, (Int)descriptor, VKI_F_GETFL, 0, 0, 0);
   return flags >= 0 && (flags & VKI_O_NONBLOCK) == 0;
}

static Bool descriptor_waits(UWord descriptor)
{
   struct vki_pollfd wanted = { .fd = (Int)descriptor, .events = VKI_POLLIN };
   /* Not 0: there is something, or no such descriptor. */
   return system_call(__NR_poll, (Word)&wanted, 1, 0, 0, 0) == 0 && may_wait(descriptor);
}

/* An epoll descriptor itself can be polled, which takes no event from it; O_NONBLOCK has no effect on it. */
static Bool epoll_waits(UWord descriptor, Int timeout_ms)
{
   struct vki_pollfd wanted = { .fd = (Int)descriptor, .events = VKI_POLLIN };
   return timeout_ms != 0 && system_call(__NR_poll, (Word)&wanted, 1, 0, 0, 0) == 0;
}

static Bool poll_waits(const void* descriptors, UWord count)
{
   struct vki_pollfd copy[POLLED];
   if (count > POLLED) {
      return True;
   }
   if (count > 0) {
      if (!is_readable(descriptors, count * sizeof *copy)) {
         return False;
      }
      VG_(memcpy)(copy, descriptors, count * sizeof *copy);
   }
   return system_call(__NR_poll, (Word)copy, (Word)count, 0, 0, 0) == 0;
}

static Bool select_waits(const UWord* arguments)
{
   UChar sets[3][SET_BYTES];
   struct vki_timeval no_time = { 0, 0 };
   Word pointers[3] = { 0, 0, 0 };
   SizeT bytes = VG_ROUNDUP(arguments[0], 64) / 8;
   if (arguments[0] > SET_BITS) {
      return True;
   }
   for (UInt i = 0; i < 3; i++) {
      const void* set = (const void*)arguments[1 + i];
      if (set != NULL) {
         if (!is_readable(set, bytes)) {
            return False;
         }
         VG_(memcpy)(sets[i], set, bytes);
         pointers[i] = (Word)sets[i];
      }
   }
   return system_call(__NR_select, (Word)arguments[0], pointers[0], pointers[1], pointers[2], (Word)&no_time) == 0;
}

static Bool child_waits(UInt kind, UWord id, UWord flags)
{
   UInt information[SIGINFO_BYTES / sizeof(UInt)] = { 0 };
   Word options_asked = (Word)((flags & ~(UWord)WAIT_NO_HANG) | WAIT_EXITED | WAIT_NO_HANG | WAIT_KEEP);
   if ((flags & WAIT_NO_HANG) != 0) {
      return False;
   }
   /* si_signo stays 0 when there is no child to report. */
   return system_call(__NR_waitid, kind, (Word)id, (Word)information, options_asked, 0) == 0 && information[0] == 0;
}

static Bool wait4_waits(Int pid, UWord flags)
{
   if (pid == -1) {
      return child_waits(WAIT_ANY, 0, flags);
   }
   return pid > 0 ? child_waits(WAIT_PID, (UWord)pid, flags) : child_waits(WAIT_GROUP, (UWord)-pid, flags);
}

static Bool is_futex_wait(const UWord* arguments)
{
   UWord command = arguments[1] & FUTEX_COMMAND_MASK;
   return command == FUTEX_WAIT_COMMAND || command == FUTEX_WAIT_BITSET_COMMAND;
}

static Bool has_no_time(UWord timeout, SizeT bytes)
{
   const ULong* parts = (const ULong*)timeout; /* seconds, then a fraction of one */
   return timeout != 0 && is_readable(parts, bytes) && parts[0] == 0 && parts[1] == 0;
}

static Bool waits(UInt number, const UWord* arguments)
{
   switch (number) {
   case __NR_read:
   case __NR_readv:
   case __NR_accept:
   case __NR_accept4:
      return descriptor_waits(arguments[0]);
   case __NR_connect:
      return may_wait(arguments[0]);
   case __NR_recvfrom:
      return (arguments[3] & MESSAGE_NO_WAIT) == 0 && descriptor_waits(arguments[0]);
   case __NR_recvmsg:
      return (arguments[2] & MESSAGE_NO_WAIT) == 0 && descriptor_waits(arguments[0]);
   case __NR_poll:
      return (Int)arguments[2] != 0 && poll_waits((const void*)arguments[0], arguments[1]);
   case __NR_ppoll:
      return !has_no_time(arguments[2], 16) && poll_waits((const void*)arguments[0], arguments[1]);
   case __NR_select:
   case __NR_pselect6:
      return !has_no_time(arguments[4], 16) && select_waits(arguments);
   case __NR_epoll_wait:
   case __NR_epoll_pwait:
      return epoll_waits(arguments[0], (Int)arguments[3]);
   case __NR_wait4:
      return wait4_waits((Int)arguments[0], arguments[2]);
   case __NR_waitid:
      return child_waits((UInt)arguments[0], arguments[1], arguments[3]);
   case __NR_futex:
      return is_futex_wait(arguments);
   default:
      return True;
   }
}

/* --- time of a call --- */

void sleep_begin(Thread* thread, UInt number)
{
   Pending* pending = &thread->pending;
   pending->blocks = waits(number, pending->arguments);
   if (!pending->blocks) {
      return;
   }
   thread_before_sleep(thread);
   thread_publish(thread); /* its own computed time must not count as that of others during its sleep */
   pending->timeout_ns = timeout_of(number, pending->arguments);
   pending->entered_wall_ns = wall_ns();
   pending->entered_idle_ns = idle_clock_ns();
   pending->entered_computed_ns = __atomic_load_n(&control->computed_ns, __ATOMIC_RELAXED);
   thread_asleep(thread);
}

/* How long a thread slept whose own timeout ended its sleep, after `slept_ns` on the wall. `alone`: all others sleep. */
static ULong timed_ns(const Pending* pending, ULong slept_ns, Bool alone)
{
   ULong computed_ns = __atomic_load_n(&control->computed_ns, __ATOMIC_RELAXED) - pending->entered_computed_ns;
   Bool quiet = alone && computed_ns < slept_ns / BUSY_FRACTION;
   Bool stuck = slept_ns >= STUCK_NS && computed_ns < slept_ns / STUCK_FRACTION;
   ULong ns = quiet || stuck ? slept_ns : idle_clock_ns() - pending->entered_idle_ns;
   return min_of(ns, pending->timeout_ns);
}

/* The thread has returned from a call that waited. */
static void woken(Thread* thread, Bool timed_out)
{
   const Pending* pending = &thread->pending;
   ULong slept_ns = monus(wall_ns(), pending->entered_wall_ns);
   Bool alone = thread_awake(thread, timed_out ? monus(slept_ns, pending->timeout_ns) : 0);
   if (slept_ns < SLEPT_NS) {
      return;
   }
   thread_woken(thread, timed_out ? timed_ns(pending, slept_ns, alone) : idle_clock_ns() - pending->entered_idle_ns);
}

/* A futex wait, however short, ends because another thread changed the word, so later records come after that thread's
   work. Small differences are ignored, otherwise each contended lock would be an event. */
static void met(Thread* thread)
{
   thread_awake(thread, 0);
   ULong frontier_ns = __atomic_load_n(&control->frontier_ns, __ATOMIC_RELAXED);
   if (monus(frontier_ns, thread_now_ns(thread)) >= SLEPT_NS) {
      thread_woken(thread, 0);
   }
}

void sleep_end(Thread* thread, UInt number, Word result)
{
   if (!thread->pending.blocks) {
      return;
   }
   switch (number) {
   case __NR_futex:
      if (result >= 0 || result == -VKI_EAGAIN) {
         met(thread);
      } else {
         woken(thread, result == -TIMED_OUT);
      }
      break;
   case __NR_nanosleep:
   case __NR_clock_nanosleep:
      woken(thread, result == 0);
      break;
   case __NR_poll:
   case __NR_ppoll:
   case __NR_select:
   case __NR_pselect6:
   case __NR_epoll_wait:
   case __NR_epoll_pwait:
      woken(thread, result == 0);
      break;
   default:
      woken(thread, result == -TIMED_OUT);
      break;
   }
}
