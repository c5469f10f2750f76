/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The memory that a program finds at its first instruction. */

#ifndef ISOREC_LAYOUT_H
#define ISOREC_LAYOUT_H

#include "record.h"

typedef void (*RecordSink)(void* context, const Record* record);

/* Reports the mappings of the program: its image, the loader and the stack, which were made without a system call of the program. */
void layout_initial(RecordSink sink, void* context);

/* The path of the file that is mapped at an address; "" if it is none. */
const HChar* layout_file_at(Addr address);

#endif
