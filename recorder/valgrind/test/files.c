/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Reads and writes files in known ways: argument 1 has 21 pages, argument 2 is made in memory. Expected output: test/run.py,
   test_files. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

static char buffer[8 * PAGE];

static void want(ssize_t got, ssize_t wanted)
{
   if (got != wanted) {
      _exit(1);
   }
}

int main(int count, char** arguments)
{
   if (count != 3) {
      return 2;
   }
   int fd = open(arguments[1], O_RDWR);
   want(read(fd, buffer, 2 * PAGE + 10), 2 * PAGE + 10);  /* 0, 1, 2 */
   want(read(fd, buffer, 10), 10);                        /* goes on in 2: nothing new */
   want(read(fd, buffer, 2 * PAGE), 2 * PAGE);            /* the rest of 2, 3, 4 */
   want(pread(fd, buffer, 500, 20 * PAGE), 100);          /* 20, and ends there */
   want(pread(fd, buffer, 500, 30 * PAGE), 0);            /* beyond the end: nothing */
   struct iovec vector[2] = { { buffer, PAGE }, { buffer + 2 * PAGE, 8 } };
   want(preadv(fd, vector, 2, 7 * PAGE), PAGE + 8);       /* 7, 8 */
   want(lseek(fd, 9 * PAGE, SEEK_SET), 9 * PAGE);
   want(readv(fd, vector, 1), PAGE);                      /* 9 */
   want(preadv2(fd, vector, 1, -1, 0), PAGE);             /* 10, the descriptor's position */
   want(pwrite(fd, buffer, 1, 2 * PAGE + 5), 1);          /* 2 */
   want(lseek(fd, 5 * PAGE - 1, SEEK_SET), 5 * PAGE - 1);
   want(write(fd, buffer, 2), 2);                         /* 4, 5 */

   int memory = open(arguments[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
   want(write(memory, buffer, PAGE), PAGE);               /* 0 */
   off_t from = 12 * PAGE + 1;
   want(lseek(fd, 5 * PAGE + 1, SEEK_SET), 5 * PAGE + 1);
   want(sendfile(memory, fd, NULL, 1), 1);                /* reads 5, writes 1 of the other */
   want(sendfile(memory, fd, &from, PAGE), PAGE);         /* reads 12 and 13, writes 1 and 2 */
   want(pread(memory, buffer, 3 * PAGE, 0), 2 * PAGE + 1); /* 0 to 2 */
   want(close(memory), 0);
   want(lseek(fd, 21 * PAGE, SEEK_SET), 21 * PAGE);
   want(write(fd, buffer, 5), 5);                         /* 21: the file grows */

   want(read(open("/proc/self/maps", O_RDONLY), buffer, 8) > 0, 1); /* nothing: generated */
   want(write(open("/dev/null", O_WRONLY), buffer, 8), 8);          /* nothing: a device */
   int ends[2];
   want(pipe(ends), 0);
   want(write(ends[1], buffer, 8), 8);
   want(read(ends[0], buffer, 8), 8);                               /* nothing: a pipe */
   pid_t child = fork();
   if (child == 0) {
      want(pread(fd, buffer, 1, 6 * PAGE), 1); /* 6 */
      _exit(0);
   }
   int status;
   want(waitpid(child, &status, 0), child);
   return WEXITSTATUS(status);
}
