/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Following execve. The core executes its launcher, that is this tool, on the new program, with the options that are in
   VG_(args_for_valgrind); the new process continues in the same recording with its own uid. Programs that cannot be followed
   run natively, which the core does when tracing of children is off. */

#include "exec.h"
#include "syscalls.h"

/* As in the kernel's BINPRM_BUF_SIZE. */
#define HEAD_BYTES 256
/* As in the kernel: a script may have a script as its interpreter, up to five levels deep. */
#define SCRIPT_DEPTH 5
#define PATH_BYTES 4096 /* PATH_MAX */
#define TEXT_BYTES (PATH_BYTES + 64)
#define ELF_MACHINE_OFFSET 18
#define ELF_X86_64 62 /* EM_X86_64 */
#define MODE_TYPE 0170000
#define MODE_FILE 0100000
#define MODE_PRIVILEGED 06000
#define MAY_EXECUTE 1

/* Kind of a path to execute. */
typedef enum {
   FOLLOWED,    /* an ELF program for x86-64 */
   CALL_FAILS,  /* the kernel will refuse; the call itself reports that to the program */
   UNFOLLOWABLE /* the kernel can run it, the tool cannot */
} Verdict;

static Bool starts_with(const UChar* head, Int length, const HChar* what)
{
   Int bytes = (Int)VG_(strlen)(what);
   return length >= bytes && VG_(memcmp)(head, what, (SizeT)bytes) == 0;
}

/* 64-bit little-endian ELF for this machine. */
static Bool is_program(const UChar* head, Int length)
{
   return length >= ELF_MACHINE_OFFSET + 2 && starts_with(head, length, "\177ELF\2\1") &&
          head[ELF_MACHINE_OFFSET] == ELF_X86_64 && head[ELF_MACHINE_OFFSET + 1] == 0;
}

static Bool is_blank(UChar byte) { return byte == ' ' || byte == '\t'; }

/* `#!interpreter [argument]`: its name goes to `path`. */
static Bool find_interpreter(const UChar* head, Int length, HChar* path)
{
   Int i = 2, bytes = 0;
   if (!starts_with(head, length, "#!")) {
      return False;
   }
   while (i < length && is_blank(head[i])) {
      i++;
   }
   while (i < length && head[i] != '\n' && head[i] != '\0' && !is_blank(head[i])) {
      path[bytes++] = (HChar)head[i++];
   }
   path[bytes] = '\0';
   return bytes > 0;
}

/* Reads the first bytes of a file. Returns their number, negative if it may not be read. */
static Int read_head(const HChar* path, UChar* head)
{
   Int fd = VG_(fd_open)(path, VKI_O_RDONLY, 0);
   if (fd < 0) {
      return -1;
   }
   Int length = VG_(read)(fd, head, HEAD_BYTES);
   VG_(close)(fd);
   return length;
}

/* Follows scripts to their interpreters, as in execve(2), and changes `path` (of PATH_BYTES) accordingly. `*why` says why a
   program cannot be followed. */
static Verdict resolve(HChar* path, const HChar** why)
{
   for (UInt depth = 0; depth <= SCRIPT_DEPTH; depth++) {
      UChar head[HEAD_BYTES];
      struct vg_stat status;
      if (sr_isError(VG_(stat)(path, &status)) || system_call(__NR_access, (Word)path, MAY_EXECUTE, 0, 0, 0) != 0 ||
          (status.mode & MODE_TYPE) != MODE_FILE) {
         return CALL_FAILS;
      }
      Int length = read_head(path, head);
      if (length < 0) {
         *why = "not readable";
         return UNFOLLOWABLE;
      }
      if (is_program(head, length)) {
         /* The core refuses these, even those of the own user. */
         if ((status.mode & MODE_PRIVILEGED) != 0) {
            *why = "set-user-ID";
            return UNFOLLOWABLE;
         }
         if (system_call(__NR_getxattr, (Word)path, (Word)"security.capability", 0, 0, 0) >= 0) {
            *why = "file capabilities";
            return UNFOLLOWABLE;
         }
         return FOLLOWED;
      }
      if (starts_with(head, length, "\177ELF")) {
         *why = "not for x86-64";
         return UNFOLLOWABLE;
      }
      if (!find_interpreter(head, length, path)) {
         return CALL_FAILS;
      }
   }
   return CALL_FAILS;
}

static Bool is_readable(const void* address, SizeT bytes)
{
   return VG_(am_is_valid_for_client)((Addr)address, bytes, VKI_PROT_READ);
}

/* Copies a string of the program; False if it is none, or too long for a path. */
static Bool copy_string(const HChar* from, HChar* out)
{
   for (UInt i = 0; i < PATH_BYTES; i++) {
      if ((i == 0 || (Addr)(from + i) % PAGE_BYTES == 0) && !is_readable(from + i, 1)) {
         return False;
      }
      out[i] = from[i];
      if (out[i] == '\0') {
         return True;
      }
   }
   return False;
}

/* The path by which the tool must call a program: the tool runs in a process of its own image, and searches $PATH. */
static void correct_name(HChar* path, Bool* corrected)
{
   HChar own[40];
   VG_(sprintf)(own, "/proc/%d/exe", VG_(getpid)());
   *corrected = True;
   if (VG_(strcmp)(path, "/proc/self/exe") == 0 || VG_(strcmp)(path, own) == 0) {
      VG_(strlcpy)(path, program_path(), PATH_BYTES);
   } else if (VG_(strchr)(path, '/') == NULL && VG_(strlen)(path) + 3 <= PATH_BYTES) {
      VG_(memmove)(path + 2, path, VG_(strlen)(path) + 1);
      VG_(memcpy)(path, "./", 2);
   } else {
      *corrected = False;
   }
}

static void pass_on(Thread* thread, UInt uid, const HChar* program, HChar* const* arguments)
{
   HChar name[PATH_BYTES];
   options_set_for_exec("--program=", program);
   options_set_number_for_exec("--uid=", uid);
   options_set_number_for_exec("--started-by=", thread->uid);
   options_set_number_for_exec("--start-ns=", thread_now_ns(thread));
   if (is_readable(arguments, sizeof *arguments) && arguments[0] != NULL && copy_string(arguments[0], name)) {
      options_set_for_exec("--argv0=", name);
   }
}

void exec_not_followed(Thread* thread, const HChar* what)
{
   thread_event(thread, &(Record){ RECORD_NOT_FOLLOWED, 0, { 0 }, what });
   thread_flush(thread);
}

void exec_follow(Thread* thread, const HChar* path, HChar* const* arguments)
{
   HChar name[PATH_BYTES], program[PATH_BYTES], text[TEXT_BYTES];
   const HChar* why;
   Bool corrected;
   if (!copy_string(path, name)) {
      return;
   }
   correct_name(name, &corrected);
   VG_(strcpy)(program, name);
   switch (resolve(program, &why)) {
   case FOLLOWED:
      mix_write();
      pass_on(thread, syscalls_announce(thread, ORIGIN_EXEC), corrected ? name : "", arguments);
      break;
   case UNFOLLOWABLE:
      VG_(clo_trace_children) = False;
      thread_asleep(thread);
      VG_(snprintf)(text, sizeof text, "%s (%s)", program, why);
      exec_not_followed(thread, text);
      break;
   case CALL_FAILS:
      break;
   }
}

void exec_failed(Thread* thread)
{
   thread_awake(thread, 0);
   VG_(clo_trace_children) = True;
}

void exec_set_own_name(Addr stack_pointer)
{
   HChar** arguments = (HChar**)stack_pointer + 1; /* the count, the arguments, …: System V ABI for x86-64, 3.4.1 */
   const HChar* name = options.argv0;
   /* Of a script, the kernel puts the interpreter there. */
   if (name == NULL || VG_(strcmp)(arguments[0], VG_(args_the_exename)) != 0) {
      return;
   }
   if (VG_(strlen)(name) <= VG_(strlen)(arguments[0])) {
      VG_(strcpy)(arguments[0], name);
   }
}
