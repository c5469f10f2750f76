/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Timeouts of system calls. Some are numbers, others structures; most are from now, some until a point of a clock. */

#include "timeout.h"

/* From the kernel's include/uapi/linux/{futex,time}.h. */
#define FUTEX_COMMAND_MASK 0x7f
#define FUTEX_WAIT_COMMAND 0
#define FUTEX_CLOCK_REALTIME 256
#define UNTIL_TIME 1 /* TIMER_ABSTIME */
#define NS_PER_SECOND 1000000000ULL
#define NS_PER_US 1000ULL
#define NS_PER_MS 1000000ULL
/* Longer ones are as good as none: a century. */
#define LONGEST_SECONDS 3155760000LL

/* Seconds, then parts of one, each of `part_ns`. */
static ULong read_time(UWord address, ULong part_ns)
{
   const Long* parts = (const Long*)address;
   if (address == 0 || !VG_(am_is_valid_for_client)((Addr)address, 2 * sizeof *parts, VKI_PROT_READ) || parts[0] < 0 ||
       parts[0] > LONGEST_SECONDS || parts[1] < 0) {
      return NO_TIMEOUT;
   }
   return (ULong)parts[0] * NS_PER_SECOND + (ULong)parts[1] * part_ns;
}

static ULong until(vki_clockid_t clock, ULong point_ns)
{
   struct vki_timespec now;
   if (point_ns == NO_TIMEOUT || system_call(__NR_clock_gettime, clock, (Word)&now, 0, 0, 0) != 0) {
      return NO_TIMEOUT;
   }
   return monus(point_ns, (ULong)now.tv_sec * NS_PER_SECOND + (ULong)now.tv_nsec);
}

static ULong of_ms(Int ms)
{
   return ms < 0 ? NO_TIMEOUT : (ULong)ms * NS_PER_MS;
}

static ULong of_futex(UWord operation, UWord timeout)
{
   ULong ns = read_time(timeout, 1);
   if ((operation & FUTEX_COMMAND_MASK) == FUTEX_WAIT_COMMAND) {
      return ns;
   }
   return until((operation & FUTEX_CLOCK_REALTIME) != 0 ? VKI_CLOCK_REALTIME : VKI_CLOCK_MONOTONIC, ns);
}

ULong timeout_of(UInt number, const UWord* arguments)
{
   switch (number) {
   case __NR_nanosleep:
      return read_time(arguments[0], 1);
   case __NR_clock_nanosleep: {
      ULong ns = read_time(arguments[2], 1);
      return (arguments[1] & UNTIL_TIME) != 0 ? until((vki_clockid_t)arguments[0], ns) : ns;
   }
   case __NR_poll:
      return of_ms((Int)arguments[2]);
   case __NR_epoll_wait:
   case __NR_epoll_pwait:
      return of_ms((Int)arguments[3]);
   case __NR_ppoll:
   case __NR_rt_sigtimedwait:
      return read_time(arguments[2], 1);
   case __NR_pselect6:
      return read_time(arguments[4], 1);
   case __NR_select:
      return read_time(arguments[4], NS_PER_US);
   case __NR_futex:
      return of_futex(arguments[1], arguments[3]);
   default:
      return NO_TIMEOUT;
   }
}
