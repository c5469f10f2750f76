/* SPDX-License-Identifier: GPL-2.0-or-later */

/* isorec-launcher: executes the tool next to it with its own arguments. Valgrind must be started by a program that it can
   start again when the traced program calls execve, and whose name is in VALGRIND_LAUNCHER. Without a libc, so that it is
   small and has no dependencies.

   The option --program=PATH, if PATH is not empty, replaces the first argument that is no option, the program: Valgrind
   passes on the path that the traced program gave to execve, and /proc/self/exe would mean another file to the tool. */

#define TOOL "isorec-amd64-linux"
#define PATH_BYTES 4096
#define VARIABLES 3 /* ours, and the end */
#define NR_READLINK 89
#define NR_WRITE 1
#define NR_EXECVE 59
#define NR_EXIT 60
#define ERROR_STREAM 2
#define CANNOT_EXECUTE 126 /* as in a shell */

typedef unsigned long Word;

static char launcher[sizeof "VALGRIND_LAUNCHER=" + PATH_BYTES] = "VALGRIND_LAUNCHER=";
static char library[sizeof "VALGRIND_LIB=" + PATH_BYTES] = "VALGRIND_LIB=";
static char tool[PATH_BYTES + sizeof TOOL];

static long call(Word number, Word a, Word b, Word c)
{
   long result;
   __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
   return result;
}

static Word copy(char* out, const char* from, Word bytes)
{
   for (Word i = 0; i < bytes; i++) {
      out[i] = from[i];
   }
   return bytes;
}

static int begins_with(const char* text, const char* what)
{
   while (*what != '\0' && *text == *what) {
      text++;
      what++;
   }
   return *what == '\0';
}

static void fail(const char* message, Word bytes)
{
   call(NR_WRITE, ERROR_STREAM, (Word)message, bytes);
   call(NR_EXIT, CANNOT_EXECUTE, 0, 0);
}

/* Replaces the program by the path of --program. */
static void replace_program(char** arguments)
{
   char* program = 0;
   for (char** argument = arguments + 1; *argument != 0; argument++) {
      if (begins_with(*argument, "--program=")) {
         program = *argument + sizeof "--program=" - 1;
      } else if ((*argument)[0] != '-') {
         *argument = program != 0 && program[0] != '\0' ? program : *argument;
         return;
      }
   }
}

/* Fills in the three strings from this program's own path. */
static void find_paths(void)
{
   char own[PATH_BYTES];
   long length = call(NR_READLINK, (Word) "/proc/self/exe", (Word)own, sizeof own);
   if (length <= 0 || length == sizeof own) {
      static const char message[] = "isorec-launcher: cannot find itself in /proc\n";
      fail(message, sizeof message - 1);
   }
   copy(launcher + sizeof "VALGRIND_LAUNCHER=" - 1, own, (Word)length);
   while (length > 1 && own[length - 1] != '/') {
      length--;
   }
   copy(library + sizeof "VALGRIND_LIB=" - 1, own, (Word)length - 1);
   copy(tool + copy(tool, own, (Word)length), TOOL, sizeof TOOL);
}

/* `stack` as set up by the kernel: the count of arguments, the arguments, 0, the variables, 0. */
__attribute__((noreturn, used)) void start(Word* stack)
{
   char** arguments = (char**)(stack + 1);
   char** variables = arguments + stack[0] + 1;
   Word count = 0;
   while (variables[count] != 0) {
      count++;
   }
   char* all[count + VARIABLES];
   Word kept = 0;
   for (Word i = 0; i < count; i++) {
      if (!begins_with(variables[i], "VALGRIND_LAUNCHER=") && !begins_with(variables[i], "VALGRIND_LIB=")) {
         all[kept++] = variables[i];
      }
   }
   find_paths();
   replace_program(arguments);
   all[kept++] = launcher;
   all[kept++] = library;
   all[kept] = 0;
   call(NR_EXECVE, (Word)tool, (Word)arguments, (Word)all);
   static const char message[] = "isorec-launcher: cannot execute " TOOL " beside it\n";
   fail(message, sizeof message - 1);
   __builtin_unreachable();
}

__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall start\n");
