/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Loops of known instructions, for test/run.py. Arguments: the kind, the repeats, for `touches` the number of pages. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define BYTES 64

static uint64_t words[BYTES], *pointer = words;
static char from[BYTES], to[BYTES];

#define LOOP(count, body, ...) \
   __asm__ volatile("1:\n\t" body "\n\tdec %0\n\tjnz 1b" : "+r"(count) : : "cc", "memory", ##__VA_ARGS__)

int main(int arguments, char** words_given)
{
   const char* kind = arguments > 2 ? words_given[1] : "";
   uint64_t count = arguments > 2 ? strtoul(words_given[2], NULL, 10) : 0;
   words[0] = (uint64_t)(uintptr_t)words;
   if (strcmp(kind, "plain") == 0) {
      LOOP(count, "add $3, %%rax\n\txor $5, %%rdx", "rax", "rdx");
   } else if (strcmp(kind, "loads") == 0) {
      __asm__ volatile("1:\n\tmov (%1), %%rax\n\tmov 8(%%rax), %%rdx\n\tdec %0\n\tjnz 1b"
                       : "+r"(count) : "r"(&pointer) : "cc", "memory", "rax", "rdx");
   } else if (strcmp(kind, "stores") == 0) {
      __asm__ volatile("1:\n\tmov %0, (%1)\n\tmov %0, 8(%1)\n\tdec %0\n\tjnz 1b"
                       : "+r"(count) : "r"(words + 8) : "cc", "memory");
   } else if (strcmp(kind, "divides") == 0) {
      LOOP(count, "xor %%edx, %%edx\n\tmov $77777, %%eax\n\tdivq %0", "rax", "rdx");
   } else if (strcmp(kind, "multiplies") == 0) {
      LOOP(count, "imul %%rax, %%rdx", "rdx");
   } else if (strcmp(kind, "floats") == 0) {
      LOOP(count, "addsd %%xmm1, %%xmm0\n\tdivsd %%xmm2, %%xmm1", "xmm0", "xmm1");
   } else if (strcmp(kind, "strings") == 0) {
      __asm__ volatile("1:\n\tmov %1, %%rdi\n\tmov %2, %%rsi\n\tmov $8, %%ecx\n\trep movsq\n\tdec %0\n\tjnz 1b"
                       : "+r"(count) : "r"(to), "r"(from) : "cc", "memory", "rdi", "rsi", "rcx");
   } else if (strcmp(kind, "atomics") == 0) {
      __asm__ volatile("1:\n\tlock incq (%1)\n\tdec %0\n\tjnz 1b" : "+r"(count) : "r"(words + 9) : "cc", "memory");
   } else if (strcmp(kind, "calls") == 0) {
      __asm__ volatile("1:\n\tmov %1, %%eax\n\tsyscall\n\tdec %0\n\tjnz 1b"
                       : "+r"(count) : "i"(SYS_getppid) : "cc", "memory", "rax", "rcx", "r11");
   } else if (strcmp(kind, "touches") == 0 && arguments > 3) {
      uint64_t pages = strtoul(words_given[3], NULL, 10), x = 1;
      volatile char* memory = mmap(NULL, pages << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      for (; count > 0; count--) {
         x = x * 6364136223846793005u + 1;
         memory[((x >> 33) % pages) << 12]++;
      }
   } else {
      return 2;
   }
   return 0;
}
