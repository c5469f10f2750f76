/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The spool directory: `control`, the FIFO and a chunk file per thread.

   Descriptors live only within one function here, while no other thread of the program can run (Valgrind runs one at a
   time, and this one holds the lock). Mappings are made through the core's address space manager, which would otherwise
   give their addresses to the program. */

#include "spool.h"
#include "options.h"

#define FILE_MODE 0600
#define STAMP_BYTES (1 + 2 * VARINT_BYTES) /* an epoch record */
#define ROW_BYTES (1 + 2 * VARINT_BYTES)

Control* control;

static HChar* path_in_spool(const HChar* name)
{
   SizeT bytes = VG_(strlen)(options.spool) + VG_(strlen)(name) + 2;
   HChar* path = VG_(malloc)("isorec.path", bytes);
   VG_(snprintf)(path, (Int)bytes, "%s/%s", options.spool, name);
   return path;
}

/* Maps the first CHUNK_BYTES of a file, shared with other processes; NULL if that fails. */
static void* map_shared(const HChar* path, Int flags)
{
   static const UChar zeroes[CHUNK_BYTES];
   Int fd = VG_(fd_open)(path, flags | VKI_O_RDWR, FILE_MODE);
   if (fd < 0) {
      return NULL;
   }
   void* address = NULL;
   /* A new file is allocated now, because a full disk would otherwise be a SIGBUS at the first store. */
   if ((flags & VKI_O_CREAT) == 0 || VG_(write)(fd, zeroes, CHUNK_BYTES) == CHUNK_BYTES) {
      SysRes mapped = VG_(am_shared_mmap_file_float_valgrind)(CHUNK_BYTES, VKI_PROT_READ | VKI_PROT_WRITE, fd, 0);
      address = sr_isError(mapped) ? NULL : (void*)sr_Res(mapped);
   }
   VG_(close)(fd);
   return address;
}

void spool_open(void)
{
   HChar* path = path_in_spool("control");
   control = map_shared(path, 0);
   if (control == NULL) {
      warn("cannot map %s", path);
      VG_(exit)(1);
   }
   VG_(free)(path);
}

UInt spool_new_uid(void)
{
   return __atomic_fetch_add(&control->next_uid, 1, __ATOMIC_RELAXED);
}

static HChar* chunk_path(UInt uid)
{
   HChar name[24];
   VG_(sprintf)(name, "thread.%u", uid);
   return path_in_spool(name);
}

static void put_word(Chunk* chunk, UInt index, UInt word)
{
   __atomic_store_n((UInt*)chunk->buffer + index, word, __ATOMIC_RELAXED);
}

static void set_payload(Chunk* chunk, UInt bytes)
{
   /* A reader of the file after a kill finds a length only if the bytes are written. */
   __atomic_signal_fence(__ATOMIC_SEQ_CST);
   put_word(chunk, 1, bytes);
   __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static void begin(Chunk* chunk)
{
   set_payload(chunk, 0);
   put_word(chunk, 0, CHUNK_MAGIC);
   put_word(chunk, 2, chunk->uid);
   put_word(chunk, 3, chunk->sequence);
   chunk->length = HEADER_BYTES;
   chunk->stamped = False;
   chunk->row_end = 0;
   chunk->file_number = 0;
}

void chunk_create(Chunk* chunk, UInt uid)
{
   HChar* path = chunk_path(uid);
   VG_(memset)(chunk, 0, sizeof *chunk);
   chunk->uid = uid;
   chunk->buffer = map_shared(path, VKI_O_CREAT | VKI_O_TRUNC);
   if (chunk->buffer != NULL) {
      begin(chunk);
   } else {
      warn("thread %u is not recorded: no room for its chunk in %s", uid, options.spool);
   }
   VG_(free)(path);
}

static void append(Chunk* chunk, const Record* record)
{
   chunk->length += record_encode(record, chunk->buffer + chunk->length);
   set_payload(chunk, chunk->length - HEADER_BYTES);
}

static void append_stamp(Chunk* chunk, Stamp stamp)
{
   if (chunk->stamped && chunk->stamp.epoch == stamp.epoch && chunk->stamp.order_ns == stamp.order_ns) {
      return;
   }
   chunk->stamped = True;
   chunk->stamp = stamp;
   append(chunk, &(Record){ RECORD_EPOCH, 2, { stamp.epoch, stamp.order_ns }, NULL });
}

static void make_room(Chunk* chunk, UInt bytes)
{
   if (chunk->length + STAMP_BYTES + bytes > CHUNK_BYTES) {
      chunk_send(chunk);
   }
}

void chunk_push(Chunk* chunk, Stamp stamp, const Record* record)
{
   if (chunk->buffer != NULL) {
      make_room(chunk, RECORD_BYTES);
      append_stamp(chunk, stamp);
      append(chunk, record);
   }
}

/* A run of pages, relative to the previous one, which ended at `*end`. */
static void append_run(Chunk* chunk, RecordTag tag, ULong* end, ULong page, ULong pages, Bool write)
{
   Long distance = (Long)(page - *end);
   ULong zigzag = (ULong)distance << 1 ^ (ULong)(distance >> 63);
   *end = page + pages;
   append(chunk, &(Record){ tag, 2, { zigzag, (pages - 1) << 1 | (write ? 1 : 0) }, NULL });
}

void chunk_push_row(Chunk* chunk, Stamp stamp, ULong page, ULong pages, Bool write, Bool kernel)
{
   if (chunk->buffer == NULL) {
      return;
   }
   make_room(chunk, ROW_BYTES);
   append_stamp(chunk, stamp);
   append_run(chunk, kernel ? RECORD_KERNEL_ROW : RECORD_ROW, &chunk->row_end, page, pages, write);
}

void chunk_push_transfer(Chunk* chunk, Stamp stamp, const File* file, ULong page, ULong pages, Bool write)
{
   if (chunk->buffer == NULL) {
      return;
   }
   make_room(chunk, RECORD_BYTES + ROW_BYTES);
   append_stamp(chunk, stamp);
   if (chunk->file_number != file->number) {
      chunk->file_number = file->number;
      chunk->transfer_end = 0;
      append(chunk, &(Record){ RECORD_FILE, 2, { file->pages, file->is_in_memory ? 1 : 0 }, file->name });
   }
   append_run(chunk, RECORD_TRANSFER, &chunk->transfer_end, page, pages, write);
}

/* A write to a pipe without a reader leaves a pending SIGPIPE, which must not reach the program. The core keeps it blocked
   while the tool runs. */
static void swallow_sigpipe(void)
{
   vki_sigset_t set;
   struct vki_timespec no_time = { 0, 0 };
   VG_(memset)(&set, 0, sizeof set);
   set.sig[0] = 1UL << (VKI_SIGPIPE - 1);
   system_call(__NR_rt_sigtimedwait, (Word)&set, 0, (Word)&no_time, sizeof set, 0);
}

/* Writes `bytes` in one piece, waiting for room. False if there is no reader. */
static Bool write_to_fifo(const UChar* buffer, UInt bytes)
{
   HChar* path = path_in_spool("fifo");
   /* Without O_NONBLOCK, opening a FIFO without a reader would block. */
   Int fd = VG_(fd_open)(path, VKI_O_WRONLY | VKI_O_NONBLOCK, 0);
   VG_(free)(path);
   if (fd < 0) {
      return False;
   }
   system_call(__NR_fcntl, fd, VKI_F_SETFL, 0, 0, 0);
   Word written;
   do {
      written = system_call(__NR_write, fd, (Word)buffer, bytes, 0, 0);
   } while (written == -VKI_EINTR);
   VG_(close)(fd);
   if (written == -VKI_EPIPE) {
      swallow_sigpipe();
   }
   return written >= 0;
}

/* Without a reader, records are dropped from then on, and the program runs on. */
void chunk_send(Chunk* chunk)
{
   if (chunk_is_empty(chunk)) {
      return;
   }
   if (__atomic_load_n(&control->stop, __ATOMIC_RELAXED) == 0 && !write_to_fifo(chunk->buffer, chunk->length)) {
      __atomic_store_n(&control->stop, 1, __ATOMIC_RELAXED);
   }
   chunk->sequence++;
   begin(chunk);
}

Bool chunk_is_empty(const Chunk* chunk)
{
   return chunk->buffer == NULL || chunk->length == HEADER_BYTES;
}

void chunk_close(Chunk* chunk)
{
   chunk_send(chunk);
   if (chunk->buffer != NULL) {
      HChar* path = chunk_path(chunk->uid);
      VG_(unlink)(path);
      VG_(free)(path);
   }
   chunk_abandon(chunk);
}

void chunk_abandon(Chunk* chunk)
{
   if (chunk->buffer != NULL) {
      VG_(am_munmap_valgrind)((Addr)chunk->buffer, CHUNK_BYTES);
      chunk->buffer = NULL;
   }
}
