/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Small programs that do one kind of work each, for fit.py. Arguments: the loop, thousands of repeats, memory in KiB. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
   state ^= state << 13;
   state ^= state >> 7;
   return state ^= state << 17;
}

static void* memory(size_t bytes)
{
   void* address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   memset(address, 1, bytes);
   return address;
}

static uint64_t add(long count, size_t bytes)
{
   uint64_t a = 1, b = 2, c = 3, d = 4;
   (void)bytes;
   for (long i = 0; i < count; i++) {
      a += b ^ (uint64_t)i, b += c >> 3, c ^= d + 5, d += a << 1;
   }
   return a + b + c + d;
}

static uint64_t multiply(long count, size_t bytes)
{
   uint64_t a = 1, b = 3;
   (void)bytes;
   for (long i = 0; i < count; i++) {
      a = a * 6364136223846793005u + 1, b = b * 2862933555777941757u + a;
   }
   return a + b;
}

static uint64_t divide(long count, size_t bytes)
{
   volatile uint64_t by = 1234567;
   uint64_t a = 0x123456789abcdefu;
   (void)bytes;
   for (long i = 0; i < count; i++) {
      a = a / by + 0x123456789abcdefu + a % 1000;
   }
   return a;
}

static uint64_t floats(long count, size_t bytes)
{
   double x = 0.5, y = 0.25, z = 0.125;
   (void)bytes;
   for (long i = 0; i < count; i++) {
      double w = x * 1.0001 + y * 0.5;
      y = y * 0.999 + z, z = z * 0.5 + w * 0.1, x = w * 0.3;
   }
   return (uint64_t)((x + y + z) * 1e6);
}

static uint64_t float_array(long count, size_t bytes)
{
   size_t length = bytes / sizeof(double);
   double *a = memory(bytes), *b = memory(bytes);
   for (size_t i = 0; i < length; i++) {
      a[i] = (double)i, b[i] = 1.5;
   }
   for (long round = 0; round < count * 1000 / (long)length; round++) {
      for (size_t i = 0; i < length; i++) {
         a[i] = a[i] * 0.5 + b[i];
      }
   }
   return (uint64_t)a[7];
}

static uint64_t float_divide(long count, size_t bytes)
{
   double x = 3.0, sum = 0;
   (void)bytes;
   for (long i = 0; i < count; i++) {
      sum += 1.0 / (x + (double)i) + (double)i / 7.3;
   }
   return (uint64_t)sum;
}

/* A ring through all lines of the memory in random order: each load waits for the previous one. */
static uint64_t chase(long count, size_t bytes)
{
   struct line { struct line* next; char rest[56]; }* lines = memory(bytes);
   size_t length = bytes / sizeof *lines;
   uint32_t* order = malloc(length * sizeof *order);
   for (size_t i = 0; i < length; i++) {
      order[i] = (uint32_t)i;
   }
   for (size_t i = length - 1; i > 0; i--) {
      size_t other = draw() % (i + 1);
      uint32_t kept = order[i];
      order[i] = order[other], order[other] = kept;
   }
   for (size_t i = 0; i < length; i++) {
      lines[order[i]].next = &lines[order[(i + 1) % length]];
   }
   free(order);
   struct line* at = lines;
   for (long i = 0; i < count; i++) {
      at = at->next;
   }
   return (uint64_t)(uintptr_t)at;
}

static uint64_t stream(long count, size_t bytes)
{
   volatile uint64_t* words = memory(bytes);
   uint64_t sum = 0;
   size_t length = bytes / sizeof *words;
   for (long i = 0; i < count; i++) {
      sum += words[(size_t)i % length];
   }
   return sum;
}

static uint64_t stride(long count, size_t bytes)
{
   volatile uint8_t* memory_bytes = memory(bytes);
   uint64_t sum = 0;
   size_t at = 0;
   for (long i = 0; i < count; i++) {
      sum += memory_bytes[at]++;
      at += 4096 + 192;
      at = at >= bytes ? at - bytes : at;
   }
   return sum;
}

static uint64_t fill(long count, size_t bytes)
{
   uint32_t* words = memory(bytes);
   size_t length = bytes / sizeof *words;
   for (long i = 0; i < count; i++) {
      words[(size_t)i % length] += (uint32_t)i;
   }
   return words[3];
}

static uint64_t copy(long count, size_t bytes)
{
   char *a = memory(bytes), *b = memory(bytes);
   for (long i = 0; i < count; i++) {
      size_t size = 16 + draw() % 8000, from = draw() % (bytes - 8192), to = draw() % (bytes - 8192);
      memcpy(b + to, a + from, size);
   }
   return (uint64_t)b[9];
}

static uint64_t branches(long count, size_t bytes)
{
   uint64_t sum = 0;
   (void)bytes;
   for (long i = 0; i < count; i++) {
      uint64_t number = draw();
      if (number & 1) {
         sum += number;
         __asm__ volatile("" : "+r"(sum));
      }
      if (number & 6) {
         sum ^= 3;
         __asm__ volatile("" : "+r"(sum));
      }
   }
   return sum;
}

static uint64_t one(uint64_t x) { return x + 1; }
static uint64_t two(uint64_t x) { return x ^ 21; }
static uint64_t three(uint64_t x) { return x * 3; }
static uint64_t four(uint64_t x) { return x - 9; }

static uint64_t indirect(long count, size_t bytes)
{
   static uint64_t (*volatile const table[4])(uint64_t) = { one, two, three, four };
   uint64_t sum = 0;
   (void)bytes;
   for (long i = 0; i < count; i++) {
      sum = table[draw() >> 20 & 3](sum);
   }
   return sum;
}

static uint64_t atomics(long count, size_t bytes)
{
   static uint64_t word;
   (void)bytes;
   for (long i = 0; i < count; i++) {
      __atomic_fetch_add(&word, (uint64_t)i, __ATOMIC_SEQ_CST);
   }
   return word;
}

static uint64_t calls(long count, size_t bytes)
{
   uint64_t sum = 0;
   (void)bytes;
   for (long i = 0; i < count; i++) {
      sum += (uint64_t)syscall(SYS_getppid);
   }
   return sum;
}

static uint64_t files(long count, size_t bytes)
{
   struct stat status;
   uint64_t sum = 0;
   (void)bytes;
   for (long i = 0; i < count; i++) {
      int fd = open("/usr/bin/env", O_RDONLY);
      stat("/usr/share/nothing/here", &status);
      fstat(fd, &status);
      sum += (uint64_t)status.st_size;
      close(fd);
   }
   return sum;
}

static uint64_t reads(long count, size_t bytes)
{
   int fd = open("/proc/self/exe", O_RDONLY);
   char* buffer = memory(bytes);
   uint64_t sum = 0;
   for (long i = 0; i < count; i++) {
      sum += (uint64_t)pread(fd, buffer, bytes, 0);
   }
   return sum;
}

static uint64_t maps(long count, size_t bytes)
{
   for (long i = 0; i < count; i++) {
      char* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      mprotect(memory, bytes / 2, PROT_READ);
      munmap(memory, bytes);
   }
   return 0;
}

static uint64_t pipes(long count, size_t bytes)
{
   int ends[2];
   char* buffer = memory(bytes);
   if (pipe(ends) != 0) {
      return 1;
   }
   for (long i = 0; i < count; i++) {
      if (write(ends[1], buffer, bytes) != (ssize_t)bytes || read(ends[0], buffer, bytes) != (ssize_t)bytes) {
         abort();
      }
   }
   return 0;
}

/* Both ends of a TCP connection over the loopback device. */
static uint64_t sockets(long count, size_t bytes)
{
   struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
   socklen_t length = sizeof address;
   int listening = socket(AF_INET, SOCK_STREAM, 0), near = socket(AF_INET, SOCK_STREAM, 0);
   char* buffer = memory(bytes);
   if (bind(listening, (struct sockaddr*)&address, sizeof address) != 0 || listen(listening, 1) != 0 ||
       getsockname(listening, (struct sockaddr*)&address, &length) != 0 ||
       connect(near, (struct sockaddr*)&address, sizeof address) != 0) {
      return 1;
   }
   int far = accept(listening, NULL, NULL);
   for (long i = 0; i < count; i++) {
      if (write(near, buffer, bytes) != (ssize_t)bytes || recv(far, buffer, bytes, MSG_WAITALL) != (ssize_t)bytes) {
         abort();
      }
   }
   return 0;
}

static uint64_t forks(long count, size_t bytes)
{
   memory(bytes);
   for (long i = 0; i < count; i++) {
      pid_t child = fork();
      if (child == 0) {
         _exit(0);
      }
      waitpid(child, NULL, 0);
   }
   return 0;
}

static void* nothing(void* argument) { return argument; }

static uint64_t threads(long count, size_t bytes)
{
   (void)bytes;
   for (long i = 0; i < count; i++) {
      pthread_t thread;
      pthread_create(&thread, NULL, nothing, NULL);
      pthread_join(thread, NULL);
   }
   return 0;
}

/* Each page once: the cost of a page fault. */
static uint64_t faults(long count, size_t bytes)
{
   for (long i = 0; i < count; i++) {
      char* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      for (size_t at = 0; at < bytes; at += 4096) {
         memory[at] = 1;
      }
      munmap(memory, bytes);
   }
   return 0;
}

static const struct {
   const char* name;
   uint64_t (*run)(long, size_t);
} kinds[] = {
   { "add", add },           { "multiply", multiply }, { "divide", divide },     { "floats", floats },
   { "float_array", float_array }, { "float_divide", float_divide }, { "chase", chase }, { "stream", stream },
   { "stride", stride },     { "fill", fill },         { "copy", copy },         { "branches", branches },
   { "indirect", indirect }, { "atomics", atomics },   { "calls", calls },       { "files", files },
   { "reads", reads },       { "maps", maps },         { "pipes", pipes },       { "sockets", sockets },
   { "forks", forks },       { "threads", threads },   { "faults", faults },
};

int main(int count, char** arguments)
{
   for (size_t i = 0; count == 4 && i < sizeof kinds / sizeof *kinds; i++) {
      if (strcmp(arguments[1], kinds[i].name) == 0) {
         printf("%lu\n", (unsigned long)kinds[i].run(atol(arguments[2]), (size_t)atol(arguments[3]) << 10));
         return 0;
      }
   }
   return 2;
}
