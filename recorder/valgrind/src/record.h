/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The records of the tool's stream, as bytes. Specified in docs/use/recording.md#protocol; the reader is
   crates/recorder/src/protocol.rs. */

#ifndef ISOREC_RECORD_H
#define ISOREC_RECORD_H

#include "core.h"

/* First bytes of every chunk: "iTR1", little endian. */
#define CHUNK_MAGIC 0x31525469U
/* Longest chunk, so that writing it to a FIFO is atomic (PIPE_BUF of Linux). */
#define CHUNK_BYTES 4096
/* magic, payload bytes, thread uid, sequence number: four 32-bit words, little endian */
#define HEADER_BYTES 16
/* Version of the records, in every HELLO. */
#define RECORD_VERSION 1
/* Longer names are truncated, so that each record fits into a chunk. */
#define NAME_BYTES 1024
#define VARINT_BYTES 10
#define RECORD_FIELDS 6
/* Longest record: a tag, eight varints and a name. */
#define RECORD_BYTES (1 + 8 * VARINT_BYTES + 3 + NAME_BYTES)

/* Pages are virtual page numbers; fields in this order. */
typedef enum {
   RECORD_HELLO = 1,        /* version, pid, tid, starter's uid + 1 (0: none), origin, start in ns; name: the program */
   RECORD_EPOCH = 2,        /* number, position in the order of all threads (ns of virtual time) */
   RECORD_ROW = 3,          /* zigzag of the distance from the last row's end, (pages - 1) * 2 + written */
   RECORD_MAP = 4,          /* first page, pages, MAP_* flags, page of the file; name: the file */
   RECORD_UNMAP = 5,        /* first page, pages */
   RECORD_DISCARD = 6,      /* first page, pages */
   RECORD_REMAP = 7,        /* old first page, old pages, new first page, new pages */
   RECORD_START = 8,        /* uid, origin; comes before the other's HELLO */
   RECORD_START_FAILED = 9, /* uid */
   RECORD_IDLE = 10,        /* ns */
   RECORD_END = 11,         /* instructions */
   RECORD_NOT_FOLLOWED = 12, /* text: the program that is not recorded, and why */
   RECORD_EXIT = 13,        /* status */
   RECORD_FILE = 14,        /* its pages, 1 if it is in memory; name: the file of the following transfers of this chunk */
   RECORD_TRANSFER = 15,    /* as RECORD_ROW, of pages of that file; the distance is from the last transfer since RECORD_FILE */
   RECORD_KERNEL_ROW = 16,  /* as RECORD_ROW: only the kernel touched these, for the program */
   RECORD_CLOCK = 17,       /* CPU time so far in ns, instructions so far */
} RecordTag;

/* How a thread was created. */
typedef enum { ORIGIN_PROGRAM = 0, ORIGIN_THREAD = 1, ORIGIN_FORK = 2, ORIGIN_EXEC = 3 } Origin;

/* Flags of RECORD_MAP. */
enum { MAP_IS_SHARED = 1, MAP_IS_EXECUTABLE = 2, MAP_IS_FILE = 4, MAP_IS_STACK = 8, MAP_IS_HEAP = 16, MAP_IS_INITIAL = 32 };

typedef struct {
   RecordTag tag;
   UInt nr_fields;
   ULong fields[RECORD_FIELDS];
   const HChar* name; /* NULL if this kind of record has none */
} Record;

/* Writes a record to `out`, which has room for RECORD_BYTES. Returns its length in bytes. */
UInt record_encode(const Record* record, UChar* out);

#endif
