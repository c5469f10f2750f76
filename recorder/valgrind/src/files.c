/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Pages of files that a system call read and wrote. Determined after the call: the descriptor's position, less the bytes
   transferred, is where it started. Only regular files with a page cache count; pseudo file systems generate their contents,
   and O_DIRECT bypasses the cache.

   Continuing in the page where the last call ended is no new use to the kernel (`filemap_read` in mm/filemap.c compares with
   the previous position), so programs that read byte by byte report each page once. */

#include "files.h"

/* Calls that Valgrind 3.19 has no names for, from the kernel's arch/x86/entry/syscalls/syscall_64.tbl. */
#define CALL_READ 0
#define CALL_WRITE 1
#define CALL_PREAD64 17
#define CALL_PWRITE64 18
#define CALL_READV 19
#define CALL_WRITEV 20
#define CALL_SENDFILE 40
#define CALL_SPLICE 275
#define CALL_PREADV 295
#define CALL_PWRITEV 296
#define CALL_COPY_FILE_RANGE 326
#define CALL_PREADV2 327
#define CALL_PWRITEV2 328

#define HERE (~0UL) /* the descriptor's position */
#define SEEK_FROM_HERE 1
#define OPEN_DIRECT 040000 /* O_DIRECT */

/* From the kernel's include/uapi/linux/magic.h. */
static const UInt made_up[] = { 0x9fa0 /* proc */,     0x62656572 /* sysfs */,   0x64626720 /* debugfs */,  0x74726163 /* tracefs */,
                                0x27e0eb /* cgroup */, 0x63677270 /* cgroup2 */, 0x73636673 /* security */, 0xf97cff8c /* selinux */,
                                0xcafe4a11 /* bpf */,  0xde5e81e4 /* efivars */, 0x6165676c /* pstore */,   0x62656570 /* configfs */,
                                0x958458f6 /* huge pages */ };
static const UInt in_memory[] = { 0x01021994 /* tmpfs */, 0x858458f6 /* ramfs */ };

/* The last file used, so that further reads of it are cheap. */
static struct {
   ULong device, inode, number;
   Bool is_known, is_cached, is_in_memory;
   HChar name[NAME_BYTES + 1];
} last;

static Bool is_among(UInt magic, const UInt* list, UInt length)
{
   for (UInt i = 0; i < length; i++) {
      if (list[i] == magic) {
         return True;
      }
   }
   return False;
}

/* Looks up the file of a descriptor. Returns whether its pages are in the page cache. */
static Bool know(Int fd, const struct vki_stat* status)
{
   if (last.is_known && last.device == status->st_dev && last.inode == status->st_ino) {
      return last.is_cached;
   }
   struct vki_statfs system;
   const HChar* path;
   last.is_known = True;
   last.device = status->st_dev;
   last.inode = status->st_ino;
   last.number++;
   last.is_cached = False;
   if (system_call(__NR_fstatfs, fd, (Word)&system, 0, 0, 0) < 0 || !VG_(resolve_filename)(fd, &path) || path[0] != '/') {
      return False;
   }
   UInt magic = (UInt)system.f_type;
   last.is_cached = !is_among(magic, made_up, sizeof made_up / sizeof *made_up);
   last.is_in_memory = is_among(magic, in_memory, sizeof in_memory / sizeof *in_memory);
   VG_(strncpy)(last.name, path, NAME_BYTES);
   last.name[NAME_BYTES] = '\0';
   return last.is_cached;
}

/* `bytes` bytes went from or to descriptor `fd`, from `position` on, or up to its current position. */
static void used(Thread* thread, UWord descriptor, ULong position, UWord bytes, Bool write)
{
   struct vki_stat status;
   Int fd = (Int)descriptor;
   if (bytes == 0 || system_call(__NR_fstat, fd, (Word)&status, 0, 0, 0) < 0 || !VKI_S_ISREG(status.st_mode)) {
      return;
   }
   Word flags = system_call(__NR_fcntl, fd, VKI_F_GETFL, 0, 0, 0);
   if (flags < 0 || (flags & OPEN_DIRECT) != 0 || !know(fd, &status)) {
      return;
   }
   if (position == HERE) {
      Word now = system_call(__NR_lseek, fd, 0, SEEK_FROM_HERE, 0, 0);
      if (now < (Word)bytes) {
         return; /* another thread moved it */
      }
      position = (ULong)now - bytes;
   }
   ULong first = position >> PAGE_BITS, end = (position + bytes - 1) / PAGE_BYTES + 1;
   ULong length = ((ULong)status.st_size + PAGE_BYTES - 1) / PAGE_BYTES;
   Transfer* before = &thread->transfer;
   Bool goes_on = before->file == last.number && before->write == write &&
                  before->epoch == thread->epoch && before->last_page == first;
   *before = (Transfer){ last.number, end - 1, thread->epoch, write };
   if (goes_on) {
      first++;
   }
   if (first < end) {
      thread_transfer(thread, &(File){ last.number, length, last.is_in_memory, last.name }, first, end - first, write);
   }
}

void files_closed(void)
{
   last.is_known = False;
}

/* The position that a call read at an address and advanced by `bytes`; HERE without an address. */
static ULong moved_on(UWord address, UWord bytes)
{
   if (address == 0) {
      return HERE;
   }
   if (!VG_(am_is_valid_for_client)(address, sizeof(ULong), VKI_PROT_READ)) {
      return 0;
   }
   return *(const ULong*)address - bytes;
}

void files_used(Thread* thread, UInt number, UWord bytes)
{
   const UWord* arguments = thread->pending.arguments;
   switch (number) {
   case CALL_READ:
   case CALL_READV:
      used(thread, arguments[0], HERE, bytes, False);
      break;
   case CALL_WRITE:
   case CALL_WRITEV:
      used(thread, arguments[0], HERE, bytes, True);
      break;
   case CALL_PREAD64:
   case CALL_PREADV:
   case CALL_PREADV2: /* where -1 means the descriptor's own position */
      used(thread, arguments[0], arguments[3], bytes, False);
      break;
   case CALL_PWRITE64:
   case CALL_PWRITEV:
   case CALL_PWRITEV2:
      used(thread, arguments[0], arguments[3], bytes, True);
      break;
   case CALL_SENDFILE: /* to, from, position */
      used(thread, arguments[1], moved_on(arguments[2], bytes), bytes, False);
      used(thread, arguments[0], HERE, bytes, True);
      break;
   case CALL_SPLICE: /* from, position, to, position */
   case CALL_COPY_FILE_RANGE:
      used(thread, arguments[0], moved_on(arguments[1], bytes), bytes, False);
      used(thread, arguments[2], moved_on(arguments[3], bytes), bytes, True);
      break;
   default:
      break;
   }
}
