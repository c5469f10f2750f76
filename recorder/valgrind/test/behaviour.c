/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Programs for test/run.py, one per first argument. Their native outcome is their specification. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define ROUNDS 200
#define ITEMS 100

static volatile int stopped, turn;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ends[2];

static void sleep_ms(long ms)
{
   struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
   while (nanosleep(&time, &time) != 0 && errno == EINTR) {
   }
}

static void compute(long steps)
{
   volatile uint64_t x = 1;
   for (long i = 0; i < steps; i++) {
      x = x * 6364136223846793005u + 1;
   }
}

static void* computes_until_stopped(void* argument)
{
   while (!stopped) {
      compute(1000);
   }
   return argument;
}

/* As above, with calls that return at once. */
static void* reads_until_stopped(void* argument)
{
   int zero = open("/dev/zero", O_RDONLY);
   char byte;
   while (!stopped) {
      compute(1000);
      if (read(zero, &byte, 1) != 1) {
         abort();
      }
   }
   close(zero);
   return argument;
}

/* Two (or more) threads compute while the first sleeps 200 ms. */
static int sleeper(int count, void* (*work)(void*))
{
   pthread_t others[64];
   for (int i = 0; i < count; i++) {
      pthread_create(&others[i], NULL, work, NULL);
   }
   sleep_ms(200);
   stopped = 1;
   for (int i = 0; i < count; i++) {
      pthread_join(others[i], NULL);
   }
   return 0;
}

static void* polls_until_stopped(void* argument)
{
   while (!stopped) {
      sleep_ms(1);
   }
   return argument;
}

/* A thread computes while two others poll each millisecond. */
static int pollers(void)
{
   pthread_t others[2];
   for (int i = 0; i < 2; i++) {
      pthread_create(&others[i], NULL, polls_until_stopped, NULL);
   }
   compute(20000000);
   stopped = 1;
   for (int i = 0; i < 2; i++) {
      pthread_join(others[i], NULL);
   }
   return 0;
}

static void* sleeps_once(void* argument)
{
   sleep_ms((long)(intptr_t)argument);
   return argument;
}

/* Two threads sleep at the same time: 100 and 200 ms. */
static int side_by_side(void)
{
   pthread_t other;
   pthread_create(&other, NULL, sleeps_once, (void*)(intptr_t)100);
   sleep_ms(200);
   return pthread_join(other, NULL);
}

static void* ping_pong(void* argument)
{
   int own = argument != NULL;
   for (int i = 0; i < ROUNDS; i++) {
      pthread_mutex_lock(&mutex);
      while (turn != own) {
         pthread_cond_wait(&changed, &mutex);
      }
      pthread_mutex_unlock(&mutex);
      compute(100000); /* some 0.1 ms */
      pthread_mutex_lock(&mutex);
      turn = !own;
      pthread_cond_signal(&changed);
      pthread_mutex_unlock(&mutex);
   }
   return NULL;
}

static int futexes(void)
{
   pthread_t other;
   pthread_create(&other, NULL, ping_pong, (void*)(intptr_t)1);
   ping_pong(NULL);
   return pthread_join(other, NULL);
}

static void* consumes(void* argument)
{
   long item;
   while (read(ends[0], &item, sizeof item) == sizeof item) {
      compute(1000);
   }
   return argument;
}

static int producer(void)
{
   pthread_t other;
   if (pipe(ends) != 0) {
      return 1;
   }
   pthread_create(&other, NULL, consumes, NULL);
   for (long item = 0; item < ITEMS; item++) {
      compute(200000); /* some 0.2 ms */
      if (write(ends[1], &item, sizeof item) != sizeof item) {
         return 1;
      }
   }
   close(ends[1]);
   return pthread_join(other, NULL);
}

/* Closes all descriptors that it has not opened, and goes on. Prints their number. */
static int closer(void)
{
   int open_ones = 0;
   for (int fd = 3; fd < 1024; fd++) {
      open_ones += close(fd) == 0;
   }
   volatile char* memory = mmap(NULL, 64 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   compute(10000000);
   for (int page = 0; page < 64; page++) {
      memory[page << 12] = 1;
   }
   printf("%d %lx\n", open_ones, (unsigned long)memory >> 12);
   return open("/dev/null", O_RDONLY) == 3 ? 0 : 1;
}

/* Writes three known pages, reports that, and waits for its end. */
__attribute__((noreturn)) static void victim(void)
{
   volatile char* memory = mmap(NULL, 4 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   for (int epoch = 0; epoch < 10; epoch++) {
      memory[0] = memory[1 << 12] = memory[2 << 12] = 1;
      compute(3000000);
   }
   printf("%lx\n", (unsigned long)memory >> 12);
   fflush(stdout);
   for (;;) {
      compute(1000);
   }
}

extern const char fault_here[];

static void on_fault(int number, siginfo_t* information, void* context)
{
   (void)number, (void)information;
   const greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
   _exit(registers[REG_R12] == 0x1234 && registers[REG_RIP] == (greg_t)(intptr_t)fault_here ? 0 : 1);
}

/* A fault handler gets the exact instruction and registers, as Java's null checks require. */
static int registers(void)
{
   struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
   sigaction(SIGSEGV, &action, NULL);
   __asm__ volatile("mov $0x1233, %%r12\n\tnop\n\tinc %%r12\n"
                    ".globl fault_here\nfault_here:\tmov %%eax, (%0)\n\tmov $0, %%r12"
                    :
                    : "r"(16L)
                    : "r12", "memory");
   return 2;
}

int main(int count, char** arguments)
{
   const char* what = count > 1 ? arguments[1] : "";
   if (strcmp(what, "pollers") == 0) {
      return pollers();
   }
   if (strcmp(what, "sleeper") == 0) {
      return sleeper(2, computes_until_stopped);
   } else if (strcmp(what, "many") == 0) {
      return sleeper(12, computes_until_stopped);
   } else if (strcmp(what, "readers") == 0) {
      return sleeper(2, reads_until_stopped);
   } else if (strcmp(what, "side") == 0) {
      return side_by_side();
   } else if (strcmp(what, "alone") == 0) {
      sleep_ms(200);
      return 0;
   } else if (strcmp(what, "futexes") == 0) {
      return futexes();
   } else if (strcmp(what, "producer") == 0) {
      return producer();
   } else if (strcmp(what, "closer") == 0) {
      return closer();
   } else if (strcmp(what, "victim") == 0) {
      victim();
   } else if (strcmp(what, "registers") == 0) {
      return registers();
   } else if (strcmp(what, "fault") == 0) {
      *(volatile int*)16 = 1;
   }
   return 2;
}
