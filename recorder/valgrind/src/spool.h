/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Where records go: chunks of 4 KiB, built in shared file mappings and written to a FIFO.

   A thread builds its chunk in the file `thread.UID` of the spool directory, mapped shared, so that whatever was recorded
   when the program is killed is still there for the recorder. The FIFO is opened for each chunk: no descriptor stays open
   that the program could see, close or be given by accident. */

#ifndef ISOREC_SPOOL_H
#define ISOREC_SPOOL_H

#include "record.h"

/* What all processes of a recording share: the file `control` of the spool directory, mapped. Atomic accesses only. */
typedef struct {
   ULong frontier_ns; /* the latest point of virtual time that any thread has reached */
   UInt next_uid;     /* the uid of the next thread */
   UInt stop;         /* not 0 when the recorder takes no more */
   ULong computed_ns; /* what all threads have computed so far, in sum; the tool alone uses it, the recorder leaves it 0 */
} Control;

extern Control* control;

/* When something happened. */
typedef struct {
   ULong epoch;    /* number of the thread's epoch */
   ULong order_ns; /* place in the order of all threads: a point of virtual time */
} Stamp;

/* The chunk that a thread is filling. */
typedef struct {
   UChar* buffer; /* NULL: there is no room for this thread's chunk, it goes unrecorded */
   UInt uid;
   UInt sequence;
   UInt length;
   Bool stamped; /* whether this chunk has said `stamp` */
   Stamp stamp;
   ULong row_end; /* where the chunk's last row ended */
   ULong file_number;  /* the file that the chunk speaks of; 0: none */
   ULong transfer_end; /* where the last transfer of that file ended */
} Chunk;

/* Maps `control` of the spool that the recorder made; ends the process with a message if that fails. */
void spool_open(void);

/* A uid that no other thread of the recording has. */
UInt spool_new_uid(void);

/* Makes the chunk file of thread `uid`. */
void chunk_create(Chunk* chunk, UInt uid);

/* Appends a record, sending the chunk first when it is full. */
void chunk_push(Chunk* chunk, Stamp stamp, const Record* record);

/* Appends a row: `pages` pages from `page`. Rows are small, so they fill chunks further than other records. */
void chunk_push_row(Chunk* chunk, Stamp stamp, ULong page, ULong pages, Bool write, Bool kernel);

/* A file that the program uses through a descriptor. */
typedef struct {
   ULong number; /* another one each time it is looked up, from 1 */
   ULong pages;  /* its length now */
   Bool is_in_memory;
   const HChar* name;
} File;

/* Appends a transfer of `pages` pages of `file` from `page` on, and before it the file if the chunk spoke of another. */
void chunk_push_transfer(Chunk* chunk, Stamp stamp, const File* file, ULong page, ULong pages, Bool write);

/* Writes the chunk to the FIFO and begins the next one. */
void chunk_send(Chunk* chunk);

Bool chunk_is_empty(const Chunk* chunk);

/* Sends what is left and removes the file. */
void chunk_close(Chunk* chunk);

/* Takes the mapping of a chunk away that another process is filling. */
void chunk_abandon(Chunk* chunk);

#endif
