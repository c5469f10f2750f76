/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The prices, and the price of each system call. */

#include "prices.h"
#include "options.h"

const HChar* const work_names[WORK_KINDS] = {
   [WORK_INSTRUCTION] = "instruction", [WORK_STRING_BYTE] = "string_byte", [WORK_LOAD] = "load",
   [WORK_CHASE] = "chase",             [WORK_STORE] = "store",             [WORK_BRANCH] = "branch",
   [WORK_LOADED_BRANCH] = "loaded_branch", [WORK_INDIRECT] = "indirect",       [WORK_VECTOR] = "vector",           [WORK_MULTIPLY] = "multiply",
   [WORK_DIVIDE] = "divide",           [WORK_ATOMIC] = "atomic",           [WORK_NEW_CODE] = "new_code",
   [WORK_FIRST_TOUCH] = "first_touch", [WORK_FAR_TOUCH] = "far_touch",     [WORK_CALL] = "call",
   [WORK_FILE_CALL] = "file_call",     [WORK_MAP_CALL] = "map_call",       [WORK_SOCKET_CALL] = "socket_call",
   [WORK_START_THREAD] = "start_thread", [WORK_FORK] = "fork",             [WORK_EXEC] = "exec",
   [WORK_COPIED_BYTE] = "copied_byte",
};

/* In units of 1/256 ns. Fitted by recorder/valgrind/prices/fit.py to native CPU times of 20 programs and 28 loops (programs.py) on a
   virtual machine, AMD EPYC, Linux 6.18; tested on eight others: docs/use/recording.md#time. Not less than one unit for an instruction. */
const UInt prices[WORK_KINDS] = {
   [WORK_INSTRUCTION] = 9,
   [WORK_STRING_BYTE] = 2,
   [WORK_LOAD] = 3,
   [WORK_CHASE] = 230,
   [WORK_STORE] = 3,
   [WORK_BRANCH] = 61,
   [WORK_LOADED_BRANCH] = 13,
   [WORK_INDIRECT] = 103,
   [WORK_VECTOR] = 24,
   [WORK_MULTIPLY] = 107,
   [WORK_DIVIDE] = 231,
   [WORK_ATOMIC] = 1249,
   [WORK_NEW_CODE] = 34435,
   [WORK_FIRST_TOUCH] = 80029,
   [WORK_FAR_TOUCH] = 1881,
   [WORK_CALL] = 35474,
   [WORK_FILE_CALL] = 281107,
   [WORK_MAP_CALL] = 549594,
   [WORK_SOCKET_CALL] = 808601,
   [WORK_START_THREAD] = 2036577,
   [WORK_FORK] = 27429761,
   [WORK_EXEC] = 28536500,
   [WORK_COPIED_BYTE] = 9,
};

ULong work_done[WORK_KINDS];

/* From the kernel's include/uapi/linux/stat.h. */
#define MODE_TYPE 0170000
#define MODE_SOCKET 0140000

static Bool is_socket(UWord descriptor)
{
   struct vg_stat status;
   return VG_(fstat)((Int)descriptor, &status) == 0 && (status.mode & MODE_TYPE) == MODE_SOCKET;
}

Work work_of_call(UInt number, UWord first_argument)
{
   switch (number) {
   case __NR_clock_gettime:
   case __NR_gettimeofday:
   case __NR_time:
   case __NR_getcpu:
      return WORK_KINDS; /* answered by the vDSO */
   case __NR_read:
   case __NR_write:
   case __NR_readv:
   case __NR_writev:
      return is_socket(first_argument) ? WORK_SOCKET_CALL : WORK_CALL;
   case __NR_sendto:
   case __NR_sendmsg:
   case __NR_recvfrom:
   case __NR_recvmsg:
   case __NR_connect:
   case __NR_accept:
   case __NR_accept4:
      return WORK_SOCKET_CALL;
   case __NR_open:
   case __NR_openat:
   case __NR_stat:
   case __NR_lstat:
   case __NR_newfstatat:
   case __NR_statx:
   case __NR_access:
   case __NR_faccessat:
   case __NR_faccessat2:
   case __NR_readlink:
   case __NR_readlinkat:
   case __NR_unlink:
   case __NR_unlinkat:
   case __NR_rename:
   case __NR_mkdir:
   case __NR_chdir:
   case __NR_getdents64:
      return WORK_FILE_CALL;
   case __NR_mmap:
   case __NR_munmap:
   case __NR_mprotect:
   case __NR_mremap:
   case __NR_brk:
   case __NR_madvise:
      return WORK_MAP_CALL;
   default:
      return WORK_CALL;
   }
}

Bool call_moves_bytes(UInt number)
{
   switch (number) {
   case __NR_read:
   case __NR_write:
   case __NR_pread64:
   case __NR_pwrite64:
   case __NR_readv:
   case __NR_writev:
   case __NR_sendto:
   case __NR_sendmsg:
   case __NR_recvfrom:
   case __NR_recvmsg:
      return True;
   default:
      return False;
   }
}

/* One line for each process and each program that it ran: names and counts. */
void mix_write(void)
{
   HChar line[WORK_KINDS * 40], *at = line;
   if (options.count_mix == NULL) {
      return;
   }
   for (UInt kind = 0; kind < WORK_KINDS; kind++) {
      at += VG_(sprintf)(at, "%s=%llu%c", work_names[kind], work_done[kind], kind + 1 < WORK_KINDS ? ' ' : '\n');
      work_done[kind] = 0;
   }
   Int fd = VG_(fd_open)(options.count_mix, VKI_O_CREAT | VKI_O_WRONLY | VKI_O_APPEND, 0600);
   if (fd >= 0) {
      VG_(write)(fd, line, (Int)(at - line));
      VG_(close)(fd);
   }
}
