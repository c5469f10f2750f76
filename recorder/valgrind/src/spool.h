/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Output of records: chunks of 4 KiB, built in shared file mappings and written to a FIFO.

   A thread builds its chunk in the file `thread.UID` of the spool directory, mapped shared, so that the recorder
   still finds the recorded data if the program is killed. The FIFO is opened for each chunk: no descriptor stays open
   that the program could see, close or be given by accident. */

#ifndef ISOREC_SPOOL_H
#define ISOREC_SPOOL_H

#include "record.h"

/* Shared by all processes of a recording: the file `control` of the spool directory, mapped. Atomic accesses only. */
typedef struct {
   ULong frontier_ns; /* the latest point of virtual time that any thread has reached */
   UInt next_uid;     /* the uid of the next thread */
   UInt stop;         /* not 0 if the recorder takes no more records */
   ULong computed_ns; /* sum of the computed time of all threads so far; only the tool uses this and what follows, the recorder leaves it 0 */
   ULong awake;       /* idle.c: above 48 bits the number of threads that are awake; if it is 0, below them since when, in µs */
   ULong idle_ns;     /* the idle clock */
} Control;

extern Control* control;

/* When something happened. */
typedef struct {
   ULong epoch;    /* number of the thread's epoch */
   ULong order_ns; /* position in the order of all threads: a point of virtual time */
} Stamp;

/* The chunk that a thread is filling. */
typedef struct {
   UChar* buffer; /* NULL: there is no space for this thread's chunk, so it is not recorded */
   UInt uid;
   UInt sequence;
   UInt length;
   Bool stamped; /* whether this chunk contains `stamp` */
   Stamp stamp;
   ULong row_end; /* end of the chunk's last row */
   ULong file_number;  /* the file that the chunk refers to; 0: none */
   ULong transfer_end; /* end of the last transfer of that file */
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
   ULong number; /* a new one at each lookup, from 1 */
   ULong pages;  /* its current length */
   Bool is_in_memory;
   const HChar* name;
} File;

/* Appends a transfer of `pages` pages of `file` from `page` on, and before it the file if the chunk refers to another. */
void chunk_push_transfer(Chunk* chunk, Stamp stamp, const File* file, ULong page, ULong pages, Bool write);

/* Writes the chunk to the FIFO and begins the next one. */
void chunk_send(Chunk* chunk);

Bool chunk_is_empty(const Chunk* chunk);

/* Sends what is left and removes the file. */
void chunk_close(Chunk* chunk);

/* Removes the mapping of a chunk that another process is filling. */
void chunk_abandon(Chunk* chunk);

#endif
