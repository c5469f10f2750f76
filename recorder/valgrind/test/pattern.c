/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Touches known pages of one mapping in known ways. Prints the mapping's first page number, and nothing else. Expected
   touches: test/run.py, EXPECTED. Phases use separate pages, so that the order of instructions does not matter. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 256

static volatile unsigned char* base;

static volatile unsigned char* at(int page, int offset) { return base + page * PAGE + offset; }

/* Valgrind's optimiser removes loads of unused values, so these are used. */
static volatile uint64_t used;

static void* thread(void* argument)
{
   *at(100, 5) = 1;
   used = *at(101, 5);
   return argument;
}

int main(int count, char** arguments)
{
   base = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   printf("%lx\n", (unsigned long)base / PAGE);
   fflush(stdout);
   if (count > 1) { /* after the execve */
      *at(200, 0) = 1;
      return 7;
   }

   used = *at(1, 0);                                     /* read */
   *at(3, 4095) = 1;                                     /* write */
   *at(5, 8) = *at(5, 0);                                /* read, then write: one row */
   used = *(volatile uint64_t*)at(7, PAGE - 4);          /* a straddle, read: 7 and 8 */
   *(volatile uint64_t*)at(10, PAGE - 1) = 1;            /* a straddle, written: 10 and 11 */
   __sync_bool_compare_and_swap((volatile int*)at(13, 0), 5, 6); /* fails, but still writes */
   __sync_fetch_and_add((volatile int*)at(15, 64), 1);
   memcpy((void*)at(20, 100), (void*)at(30, 50), 2 * PAGE); /* writes 20 to 22, reads 30 to 32 */
   __asm__ volatile("rep movsb" : : "S"(at(40, PAGE - 2)), "D"(at(44, 0)), "c"(4L) : "memory"); /* 40 and 41 to 44 */
   __asm__ volatile("movntdq %%xmm0, (%0)" : : "r"(at(48, 16)) : "memory");
   __asm__ volatile("fxsave (%0)" : : "r"(at(50, PAGE - 256)) : "memory"); /* 50 and 51 */
   __asm__ volatile("prefetcht0 (%0)" : : "r"(at(53, 0)));                /* no touch */

   int fd = open("/dev/zero", O_RDWR);
   struct iovec vector[2] = { { (void*)at(60, 10), 10 }, { (void*)at(62, PAGE - 5), 10 } };
   if (readv(fd, vector, 2) != 20 || read(fd, (void*)at(65, 1), 3) != 3) { /* 60, 62, 63, 65 written by the kernel */
      return 1;
   }
   vector[0].iov_base = (void*)at(67, 0);
   if (writev(fd, vector, 1) != 10 || write(fd, (void*)at(69, 0), PAGE + 1) != PAGE + 1) { /* 67, 69, 70 read */
      return 1;
   }
   strcpy((char*)at(72, PAGE - 4), "/dev/null"); /* written; then read as a path */
   close(open((char*)at(72, PAGE - 4), O_RDONLY));

   pthread_t other;
   if (pthread_create(&other, NULL, thread, NULL) != 0 || pthread_join(other, NULL) != 0) {
      return 1;
   }
   pid_t child = fork();
   if (child == 0) {
      *at(110, 0) = 1;
      _exit(3);
   }
   int status;
   if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3) {
      return 1;
   }
   *at(120, 0) = 1;
   execl("/proc/self/exe", arguments[0], "again", NULL);
   return 1;
}
