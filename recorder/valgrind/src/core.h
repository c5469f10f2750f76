/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Common declarations: Valgrind's tool headers, the few functions of its core that those lack, and direct system calls. */

#ifndef ISOREC_CORE_H
#define ISOREC_CORE_H

#include "pub_tool_basics.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_xarray.h"

/* From Valgrind's core, the same in 3.19 and 3.24. A tool links statically with the core that it was built against. */
extern SysRes VG_(am_shared_mmap_file_float_valgrind)(SizeT length, UInt prot, Int fd, Off64T offset);
extern XArray* VG_(args_for_valgrind);        /* of HChar*: our own options, which a program started by execve gets */
extern const HChar* VG_(args_the_exename);    /* the program, as named on the command line */
extern Bool VG_(clo_trace_children);
extern Bool VG_(resolve_filename)(Int fd, const HChar** path); /* returns a buffer that the next call overwrites */
extern Int VG_(log_output_sink);                              /* a structure; first its descriptor, -1 for none */
extern Int VG_(cl_exec_fd);                                   /* the program's file, open */

#define PAGE_BITS 12
#define PAGE_BYTES (1UL << PAGE_BITS)

/* The tool's own image, by the linker. The core lends a page of it to the program, for returns from signal handlers. */
extern const UChar __executable_start[], _end[];

static inline Bool is_of_tool(Addr address) { return address >= (Addr)__executable_start && address < (Addr)_end; }

static inline ULong max_of(ULong a, ULong b) { return a > b ? a : b; }
static inline ULong min_of(ULong a, ULong b) { return a < b ? a : b; }
static inline ULong monus(ULong a, ULong b) { return a > b ? a - b : 0; }

/* The path of the running program; for a script, of its interpreter. Valid up to the next call. */
static inline const HChar* program_path(void)
{
   const HChar* path;
   return VG_(resolve_filename)(VG_(cl_exec_fd), &path) ? path : VG_(args_the_exename);
}

/* A system call of the tool itself; returns negative error numbers, as the kernel does. */
static inline Word system_call(Word number, Word a, Word b, Word c, Word d, Word e)
{
   Word result;
   register Word r10 __asm__("r10") = d;
   register Word r8 __asm__("r8") = e;
   __asm__ volatile("syscall"
                    : "=a"(result)
                    : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                    : "rcx", "r11", "memory");
   return result;
}

/* Prints a message to the program's standard error: there is no other way if nothing can be recorded. Valgrind's own
   messages go to its log, which our starter discards. */
void warn(const HChar* format, ...) PRINTF_CHECK(1, 2);

#endif
