/* SPDX-License-Identifier: GPL-2.0-or-later */

/* isorec: records which pages a program touches, as a tool of Valgrind.

   Translated code checks in two small tables whether an access is new (instrument.c); an exact table per thread lets the first
   touch of a page in each epoch through (filter.c); records go to the recorder, `isotherm record`, in chunks (spool.c). How
   it works, what it costs and what it does not see: docs/use/recording.md. */

#include <stdarg.h>

#include "exec.h"
#include "instrument.h"
#include "options.h"
#include "spool.h"
#include "syscalls.h"
#include "thread.h"
#include "pub_tool_machine.h"
#include "pub_tool_options.h"

#define ERROR_STREAM 2
#define FIRST_THREAD 1
#define MESSAGE_BYTES 512

void warn(const HChar* format, ...)
{
   HChar text[MESSAGE_BYTES], line[MESSAGE_BYTES + 20];
   va_list arguments;
   va_start(arguments, format);
   VG_(vsnprintf)(text, sizeof text, format, arguments);
   va_end(arguments);
   UInt length = VG_(snprintf)(line, sizeof line, "isotherm recorder: %s\n", text);
   VG_(write)(ERROR_STREAM, line, (Int)length);
}

static void on_first_instruction(ThreadId tid)
{
   if (tid == FIRST_THREAD) {
      exec_set_own_name(VG_(get_SP)(tid));
   }
}

static void post_clo_init(void)
{
   options_check();
   spool_open();
   threads_create();
   if (VG_(clo_verbosity) == 0) {
      VG_(log_output_sink) = -1; /* otherwise warnings and fatal signals would still be printed to the program's stream */
   }
}

/* The process exits, or is killed by a signal. */
static void fini(Int exit_code)
{
   (void)exit_code;
   threads_end();
}

static void pre_clo_init(void)
{
   VG_(details_name)("isorec");
   VG_(details_version)(NULL);
   VG_(details_description)("records the pages that a program touches");
   VG_(details_copyright_author)("the authors of isotherm, GPL-2.0-or-later");
   VG_(details_bug_reports_to)("the isotherm project");
   VG_(details_avg_translation_sizeB)(600);
   VG_(basic_tool_funcs)(post_clo_init, instrument, fini);
   options_declare();
   threads_track();
   VG_(track_pre_thread_first_insn)(on_first_instruction);
   syscalls_track();
}

VG_DETERMINE_INTERFACE_VERSION(pre_clo_init)
