/* A pool of four threads over a table of 32 MiB: each 25 ms four jobs, each of which reads 256 pages, most of them in the table's
   first eighth. Prints how long the four together took, in ns. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS 4
#define PAGES 8192
#define PAGE 4096
#define READS 256

static unsigned char* table;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static int waiting, running, ended;
static volatile uint64_t sum;

static uint64_t now_ns(void)
{
   struct timespec time;
   clock_gettime(CLOCK_MONOTONIC, &time);
   return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void job(uint64_t* state)
{
   uint64_t own = 0;
   for (int i = 0; i < READS; i++) {
      *state = *state * 6364136223846793005u + 1442695040888963407u;
      uint64_t draw = *state >> 33;
      uint64_t page = draw % 16 == 0 ? (draw >> 4) % PAGES : (draw >> 4) % (PAGES / 8);
      for (int byte = 0; byte < PAGE; byte += 16) {
         own += table[page * PAGE + byte];
      }
   }
   sum += own;
}

static void* worker(void* argument)
{
   uint64_t state = (uint64_t)(uintptr_t)argument;
   pthread_mutex_lock(&mutex);
   for (;;) {
      while (waiting == 0 && !ended) {
         pthread_cond_wait(&work, &mutex);
      }
      if (ended) {
         break;
      }
      waiting--;
      running++;
      pthread_mutex_unlock(&mutex);
      job(&state);
      pthread_mutex_lock(&mutex);
      if (--running == 0 && waiting == 0) {
         pthread_cond_signal(&done);
      }
   }
   pthread_mutex_unlock(&mutex);
   return NULL;
}

int main(int count, char** arguments)
{
   int rounds = count > 1 ? atoi(arguments[1]) : 100;
   pthread_t threads[THREADS];
   uint64_t* took = calloc((size_t)rounds, sizeof *took);
   table = malloc((size_t)PAGES * PAGE);
   memset(table, 1, (size_t)PAGES * PAGE);
   for (uintptr_t i = 0; i < THREADS; i++) {
      pthread_create(&threads[i], NULL, worker, (void*)(i + 1));
   }
   for (int i = 0; i < rounds; i++) {
      struct timespec pause = { 0, 25000000 };
      nanosleep(&pause, NULL);
      uint64_t began = now_ns();
      pthread_mutex_lock(&mutex);
      waiting = THREADS;
      pthread_cond_broadcast(&work);
      while (waiting + running > 0) {
         pthread_cond_wait(&done, &mutex);
      }
      pthread_mutex_unlock(&mutex);
      took[i] = now_ns() - began;
   }
   pthread_mutex_lock(&mutex);
   ended = 1;
   pthread_cond_broadcast(&work);
   pthread_mutex_unlock(&mutex);
   for (int i = 0; i < THREADS; i++) {
      pthread_join(threads[i], NULL);
   }
   for (int i = 0; i < rounds; i++) {
      printf("%llu\n", (unsigned long long)took[i]);
   }
   return 0;
}
