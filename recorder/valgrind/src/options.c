/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The tool's options: read at the start, changed for programs that execve starts. */

#include "options.h"
#include "prices.h"
#include "pub_tool_options.h"
#include "pub_tool_tooliface.h"

#define EPOCH_INSTRUCTIONS_END (1LL << 40)
#define EPOCH_NS_END (1LL << 52) /* so that its units fit into a word */
#define NS_END (1LL << 60) /* as in the recorder: sums of a few such values must not overflow */
#define UID_LAST 0xffffffffLL

Options options = { .started_by = NOBODY };

static Bool parse(const HChar* argument)
{
   if VG_STR_CLO (argument, "--spool", options.spool) {
   } else if VG_BINT_CLO (argument, "--epoch-instructions", options.epoch_instructions, 0, EPOCH_INSTRUCTIONS_END - 1) {
   } else if VG_BINT_CLO (argument, "--epoch-ns", options.epoch_ns, 1, EPOCH_NS_END - 1) {
   } else if VG_BINT_CLO (argument, "--uid", options.uid, 0, UID_LAST) {
   } else if VG_BINT_CLO (argument, "--started-by", options.started_by, 0, UID_LAST) {
   } else if VG_BINT_CLO (argument, "--start-ns", options.start_ns, 0, NS_END - 1) {
   } else if VG_STR_CLO (argument, "--program", options.program) {
   } else if VG_STR_CLO (argument, "--count-mix", options.count_mix) {
   } else if VG_STR_CLO (argument, "--argv0", options.argv0) {
   } else {
      return False;
   }
   return True;
}

static void print_usage(void)
{
   VG_(printf)("    --spool=DIR --epoch-ns=N [--epoch-instructions=N] [--uid=N] [--started-by=N]\n"
               "    [--start-ns=N] [--program=PATH] [--argv0=NAME]    given by `isotherm record`\n");
}

static void print_debug_usage(void)
{
   VG_(printf)("    --count-mix=FILE          counts work by kind, for recorder/valgrind/prices/fit.py\n");
}

void options_declare(void)
{
   VG_(needs_command_line_options)(parse, print_usage, print_debug_usage);
   /* Defaults that options of the core may still change. Chasing across calls makes start-up slower, and other code not
      faster. Registers are exact at each access, because some programs handle faults: Java crashes otherwise.
      The cost was not distinguishable from noise (gcc, Python). */
   VG_(clo_trace_children) = True;
   VG_(clo_vex_control).guest_chase = False;
   VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdAllregsAtMemAccess;
   VG_(clo_px_file_backed) = VexRegUpdAllregsAtMemAccess;
}

void options_check(void)
{
   if (options.spool == NULL || options.epoch_ns == 0) {
      warn("this tool is started by `isotherm record`; it needs --spool and --epoch-ns");
      VG_(exit)(1);
   }
   options.epoch_units = has_prices() ? options.epoch_ns * UNITS_PER_NS : options.epoch_instructions;
}

void options_set_for_exec(const HChar* prefix, const HChar* value)
{
   SizeT bytes = VG_(strlen)(prefix) + VG_(strlen)(value) + 1;
   HChar* option = VG_(malloc)("isorec.option", bytes);
   VG_(snprintf)(option, (Int)bytes, "%s%s", prefix, value);
   for (Word i = 0; i < VG_(sizeXA)(VG_(args_for_valgrind)); i++) {
      HChar** argument = VG_(indexXA)(VG_(args_for_valgrind), i);
      if (VG_(strncmp)(*argument, prefix, VG_(strlen)(prefix)) == 0) {
         *argument = option; /* the old one may be a string of the command line: not freed */
         return;
      }
   }
   VG_(addToXA)(VG_(args_for_valgrind), &option);
}

void options_set_number_for_exec(const HChar* prefix, ULong value)
{
   HChar text[24];
   VG_(sprintf)(text, "%llu", value);
   options_set_for_exec(prefix, text);
}
