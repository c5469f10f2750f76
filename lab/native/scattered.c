/* Reads pages by a power law: `memory PAGES READS` of an anonymous array, of which it also writes one page in five; `mapped FILE READS` of
   a file that is mapped; `read FILE READS` of a file through its descriptor, with one scan of all of it halfway. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096
#define WORDS (PAGE / sizeof(uint64_t))

static uint64_t state = 1, sum;

static uint64_t draw(void)
{
   state = state * 6364136223846793005u + 1442695040888963407u;
   return state >> 33;
}

static void use(const uint64_t* page)
{
   for (size_t word = 0; word < WORDS; word++) {
      sum = sum * 3 + page[word];
   }
}

/* Of `pages` pages the n-th most used is drawn in proportion to about n to the power of -0.8. Ranks are spread over the array. */
static uint64_t scattered(uint64_t pages)
{
   uint64_t rank = (uint64_t)((double)pages * pow((double)draw() / (double)(1u << 31), 5));
   return rank * 2654435761u % pages;
}

int main(int count, char** arguments)
{
   if (count != 4) {
      fprintf(stderr, "usage: scattered memory PAGES READS | mapped FILE READS | read FILE READS\n");
      return 2;
   }
   long reads = atol(arguments[3]);
   uint64_t pages = strtoul(arguments[2], NULL, 10);
   int file = -1;
   if (strcmp(arguments[1], "memory") != 0) {
      struct stat status;
      file = open(arguments[2], O_RDONLY);
      if (file < 0 || fstat(file, &status) != 0) {
         perror(arguments[2]);
         return 1;
      }
      pages = (uint64_t)status.st_size / PAGE;
   }
   if (strcmp(arguments[1], "read") == 0) {
      static uint64_t block[WORDS];
      for (long i = 0; i < reads; i++) {
         for (uint64_t page = 0; i == reads / 2 && page < pages; page++) {
            if (pread(file, block, PAGE, (off_t)(page * PAGE)) == PAGE) use(block);
         }
         if (pread(file, block, PAGE, (off_t)(scattered(pages) * PAGE)) == PAGE) use(block);
      }
   } else {
      int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
      uint64_t* array = mmap(NULL, pages * PAGE, file < 0 ? PROT_READ | PROT_WRITE : PROT_READ, flags, file, 0);
      if (array == MAP_FAILED) {
         perror("mmap");
         return 1;
      }
      /* Half of a page does not compress. */
      for (uint64_t word = 0; file < 0 && word < pages * WORDS; word++) {
         array[word] = word % WORDS < WORDS / 2 ? draw() * draw() : 0;
      }
      for (long i = 0; i < reads; i++) {
         uint64_t* page = array + scattered(pages) * WORDS;
         use(page);
         if (file < 0 && i % 5 == 0) page[0] = sum;
      }
   }
   return sum == 0;
}
