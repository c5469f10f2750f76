/* SPDX-License-Identifier: GPL-2.0-or-later */

/* System calls of the program, x86-64 Linux, before and after the kernel sees them. */

#include "syscalls.h"
#include "exec.h"
#include "files.h"
#include "layout.h"
#include "pub_tool_tooliface.h"
#include "sleep.h"

/* From the kernel's include/uapi/linux/sched.h and asm-generic/mman.h, where Valgrind's headers lack them. */
#define CLONE_SHARES_MEMORY 0x100
#define CLONE_WAITS_FOR_CHILD 0x4000
#define MAP_SHARED_BITS 0x1 /* MAP_SHARED is 1, MAP_SHARED_VALIDATE 3, MAP_PRIVATE 2 */
#define MAP_GROWS_DOWN 0x100
#define MAP_FOR_STACK 0x20000
#define DISCARD_NOW 4   /* MADV_DONTNEED */
#define DISCARD_LATER 8 /* MADV_FREE */
#define SHM_STATUS 2    /* IPC_STAT */

/* The program break of this process; 0 until the program has asked for it. */
static UWord program_break;

static ULong first_page(UWord address) { return address >> PAGE_BITS; }

/* The page after [address, address + bytes). */
static ULong end_page(UWord address, UWord bytes)
{
   UWord end = address + bytes < address ? ~0UL : address + bytes;
   return end / PAGE_BYTES + (end % PAGE_BYTES != 0);
}

static ULong flag_if(Bool condition, ULong flag) { return condition ? flag : 0; }

/* --- mappings --- */

static void mapped(Thread* thread, ULong start, ULong end, ULong flags, ULong file_page, const HChar* name)
{
   thread_layout_event(thread, &(Record){ RECORD_MAP, 4, { start, end - start, flags, file_page }, name });
   thread_forget(thread, start, end);
}

static void unmapped(Thread* thread, ULong start, ULong end)
{
   thread_layout_event(thread, &(Record){ RECORD_UNMAP, 2, { start, end - start }, NULL });
   thread_forget(thread, start, end);
}

static void on_mmap(Thread* thread, UWord address)
{
   const UWord* arguments = thread->pending.arguments;
   UWord bytes = arguments[1], protection = arguments[2], how = arguments[3], offset = arguments[5];
   const HChar* file = (how & VKI_MAP_ANONYMOUS) != 0 ? "" : layout_file_at(address);
   Bool is_file = file[0] != '\0' && VG_(strcmp)(file, "/dev/zero") != 0;
   ULong flags = flag_if((how & MAP_SHARED_BITS) != 0, MAP_IS_SHARED) |
                 flag_if((protection & VKI_PROT_EXEC) != 0, MAP_IS_EXECUTABLE) | flag_if(is_file, MAP_IS_FILE) |
                 flag_if((how & (MAP_FOR_STACK | MAP_GROWS_DOWN)) != 0, MAP_IS_STACK);
   ULong file_page = (how & VKI_MAP_ANONYMOUS) != 0 ? 0 : offset >> PAGE_BITS;
   mapped(thread, first_page(address), end_page(address, bytes), flags, file_page, is_file ? file : "");
}

static void on_mremap(Thread* thread, UWord address)
{
   const UWord* arguments = thread->pending.arguments;
   ULong old_start = first_page(arguments[0]), old_end = end_page(arguments[0], arguments[1]);
   ULong start = first_page(address), end = end_page(address, arguments[2]);
   thread_layout_event(thread, &(Record){ RECORD_REMAP, 4, { old_start, old_end - old_start, start, end - start }, NULL });
   if (old_start != start) {
      thread_forget(thread, old_start, old_end);
      thread_forget(thread, start, end);
   } else if (end < old_end) {
      thread_forget(thread, end, old_end);
   }
}

static void on_brk(Thread* thread, UWord address)
{
   ULong before = end_page(program_break, 0), now = end_page(address, 0);
   program_break = address;
   if (before == 0) {
      return;
   }
   if (now > before) {
      mapped(thread, before, now, MAP_IS_HEAP, 0, "");
   } else if (now < before) {
      unmapped(thread, now, before);
   }
}

static void on_madvise(Thread* thread)
{
   const UWord* arguments = thread->pending.arguments;
   if (arguments[2] == DISCARD_NOW || arguments[2] == DISCARD_LATER) {
      ULong start = first_page(arguments[0]), end = end_page(arguments[0], arguments[1]);
      thread_layout_event(thread, &(Record){ RECORD_DISCARD, 2, { start, end - start }, NULL });
      thread_forget(thread, start, end);
   }
}

static void on_shmat(Thread* thread, UWord address)
{
   UWord id = thread->pending.arguments[0];
   struct vki_shmid64_ds status;
   HChar name[40];
   Bool known = system_call(__NR_shmctl, (Word)id, SHM_STATUS, (Word)&status, 0, 0) == 0;
   VG_(sprintf)(name, "/sysv-shm-%lu", id);
   ULong end = end_page(address, known ? status.shm_segsz : PAGE_BYTES);
   mapped(thread, first_page(address), end, MAP_IS_SHARED | MAP_IS_FILE, 0, name);
}

/* --- starts --- */

UInt syscalls_announce(Thread* thread, Origin origin)
{
   UInt uid = spool_new_uid();
   thread->pending.child = uid;
   thread_publish(thread);
   thread_event(thread, &(Record){ RECORD_START, 2, { uid, origin }, NULL });
   if (origin == ORIGIN_EXEC) {
      thread_tell_clock(thread); /* the last record of this thread if the call succeeds */
   }
   thread_flush(thread);
   return uid;
}

static void start_failed(Thread* thread)
{
   if (thread->pending.child != NO_UID) {
      thread_event(thread, &(Record){ RECORD_START_FAILED, 1, { (ULong)thread->pending.child }, NULL });
      thread->pending.child = NO_UID;
   }
}

/* The core turns a vfork into a fork, whatever the flags. */
static Origin origin_of_clone(UWord flags)
{
   return (flags & CLONE_SHARES_MEMORY) != 0 && (flags & CLONE_WAITS_FOR_CHILD) == 0 ? ORIGIN_THREAD : ORIGIN_FORK;
}

/* --- entry and return --- */

/* The work of a call, before it. */
static void works(Thread* thread, UInt number)
{
   const UWord* arguments = thread->pending.arguments;
   Work kind;
   switch (number) {
   case __NR_clone:
      kind = origin_of_clone(arguments[0]) == ORIGIN_THREAD ? WORK_START_THREAD : WORK_FORK;
      break;
   case __NR_fork:
   case __NR_vfork:
      kind = WORK_FORK;
      break;
   default:
      kind = work_of_call(number, arguments[0]);
      break;
   }
   if (kind != WORK_KINDS) {
      thread_works(thread, kind, 1);
   }
}

static void enter(ThreadId tid, UInt number, UWord* arguments, UInt nr_arguments)
{
   Thread* thread = thread_run(tid);
   if (thread == NULL) {
      return;
   }
   for (UInt i = 0; i < SYSCALL_ARGUMENTS; i++) {
      thread->pending.arguments[i] = i < nr_arguments ? arguments[i] : 0;
   }
   works(thread, number);
   thread_leaves(thread);
   switch (number) {
   case __NR_clone:
      syscalls_announce(thread, origin_of_clone(arguments[0]));
      break;
   case __NR_fork:
   case __NR_vfork:
      syscalls_announce(thread, ORIGIN_FORK);
      break;
   case __NR_execve:
      exec_follow(thread, (const HChar*)arguments[0], (HChar* const*)arguments[1]);
      break;
   case __NR_execveat:
      exec_not_followed(thread, "a program given by descriptor (execveat)");
      break;
   case __NR_exit_group:
      thread_event(thread, &(Record){ RECORD_EXIT, 1, { arguments[0] & 0xff }, NULL });
      break;
   default:
      if (sleep_is_possible(number)) {
         sleep_begin(thread, number);
      }
      break;
   }
}

static void succeeded(Thread* thread, UInt number, UWord value)
{
   switch (number) {
   case __NR_mmap:
      on_mmap(thread, value);
      break;
   case __NR_munmap: {
      const UWord* arguments = thread->pending.arguments;
      unmapped(thread, first_page(arguments[0]), end_page(arguments[0], arguments[1]));
      break;
   }
   case __NR_mremap:
      on_mremap(thread, value);
      break;
   case __NR_close:
      files_closed();
      break;
   case __NR_brk:
      on_brk(thread, value);
      break;
   case __NR_madvise:
      on_madvise(thread);
      break;
   case __NR_shmat:
      on_shmat(thread, value);
      break;
   default: /* shmdt: the length is not in the call; the recorder keeps the mapping until something replaces it */
      break;
   }
}

static void failed(Thread* thread, UInt number)
{
   switch (number) {
   case __NR_clone:
   case __NR_fork:
   case __NR_vfork:
      start_failed(thread);
      break;
   case __NR_execve:
   case __NR_execveat:
      start_failed(thread);
      exec_failed(thread);
      break;
   default:
      break;
   }
}

static void leave(ThreadId tid, UInt number, UWord* arguments, UInt nr_arguments, SysRes result)
{
   (void)arguments, (void)nr_arguments;
   Thread* thread = thread_run(tid);
   if (thread == NULL) {
      return;
   }
   thread_is_back(thread);
   if (!sr_isError(result)) {
      files_used(thread, number, sr_Res(result));
   }
   if (call_moves_bytes(number) && !sr_isError(result)) {
      thread_works(thread, WORK_COPIED_BYTE, sr_Res(result));
   }
   if (sleep_is_possible(number)) {
      sleep_end(thread, number, sr_isError(result) ? -(Word)sr_Err(result) : (Word)sr_Res(result));
   } else if (sr_isError(result)) {
      failed(thread, number);
   } else {
      succeeded(thread, number, sr_Res(result));
   }
}

/* --- the kernel's own accesses for the program --- */

static Bool is_kernel(CorePart part) { return part == Vg_CoreSysCall || part == Vg_CoreSignal; }

static void touch(CorePart part, ThreadId tid, Addr address, SizeT bytes, Bool write)
{
   /* A bad pointer is the program's error: the call will fail. */
   if (is_kernel(part) && bytes > 0 && VG_(am_is_valid_for_client)(address, bytes, VKI_PROT_NONE)) {
      Thread* thread = thread_run(tid);
      if (thread != NULL) {
         thread_kernel_touch(thread, address, bytes, write);
      }
   }
}

static void on_kernel_read(CorePart part, ThreadId tid, const HChar* what, Addr address, SizeT bytes)
{
   (void)what;
   touch(part, tid, address, bytes, False);
}

static void on_kernel_read_string(CorePart part, ThreadId tid, const HChar* what, Addr address)
{
   (void)what;
   Bool ended = False;
   while (!ended && VG_(am_is_valid_for_client)(address, 1, VKI_PROT_READ)) {
      SizeT room = PAGE_BYTES - address % PAGE_BYTES;
      ended = VG_(strnlen)((const HChar*)address, room) < room;
      touch(part, tid, address, 1, False);
      address += room;
   }
}

static void on_kernel_wrote(CorePart part, ThreadId tid, Addr address, SizeT bytes)
{
   touch(part, tid, address, bytes, True);
}

void syscalls_track(void)
{
   VG_(needs_syscall_wrapper)(enter, leave);
   VG_(track_pre_mem_read)(on_kernel_read);
   VG_(track_pre_mem_read_asciiz)(on_kernel_read_string);
   VG_(track_post_mem_write)(on_kernel_wrote);
}
