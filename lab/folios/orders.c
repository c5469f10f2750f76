/* The first process of a virtual machine, for orders.py: reads, maps and writes files as the worked examples of
   docs/spec/large-folios.md do. For each it prints which folios the kernel added to the page cache, by the tracepoint mm_filemap_add_to_page_cache, and which pages are
   mapped afterwards, by /proc/self/pagemap. `KIND` is the file system on /dev/ram0, whose blocks are in /image. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096L
#define AREA ((char*)0x7f0000000000)
#define HUGE "/sys/kernel/mm/transparent_hugepage/"

static char buffer[2 << 20];
static int marker, file, failures;

static void fail(const char* what, const char* name)
{
   printf("cannot %s %s: %m\n", what, name);
   failures++;
}

static void put(const char* path, const char* text)
{
   int knob = open(path, O_WRONLY | O_TRUNC);
   if (knob < 0 || write(knob, text, strlen(text)) < 0) {
      fail("write", path);
   }
   close(knob);
}

static void show(const char* what, const char* path)
{
   int from = open(path, O_RDONLY);
   ssize_t length = read(from, buffer, 200);
   printf("%s%.*s", what, (int)(length < 0 ? 0 : length), buffer);
   close(from);
}

static void load(const char* path, const char* parameters)
{
   int module = open(path, O_RDONLY);
   if (module >= 0 && syscall(SYS_finit_module, module, parameters, 0)) {
      fail("load", path);
   }
   close(module);
}

static void at(long page)
{
   char text[32];
   write(marker, text, (size_t)sprintf(text, "at %ld\n", page));
}

static void make(const char* name, long pages)
{
   int made = open(name, O_RDWR | O_CREAT, 0644);
   ftruncate(made, pages * PAGE);
   close(made);
}

/* An example begins with an empty page cache and a file that is newly opened. */
static void begin(const char* what, const char* name)
{
   put("/proc/sys/vm/drop_caches", "3");
   printf("%s\n", what);
   file = open(name, O_RDWR | O_CREAT, 0644);
   put("/t/trace", "");
   put("/t/tracing_on", "1");
}

/* Of this file alone: file systems read their own blocks too. Prints the folios as `index:order`, after the page at which something was done. */
static void end(void)
{
   put("/t/tracing_on", "0");
   FILE* trace = fopen("/t/trace", "r");
   char line[1000], own[32], *found;
   struct stat status;
   fstat(file, &status);
   sprintf(own, " ino %lx ", (long)status.st_ino);
   while (fgets(line, sizeof line, trace)) {
      if ((found = strstr(line, ": at "))) {
         printf("  %s", found + 2);
      } else if ((found = strstr(line, "ofs=")) && strstr(line, own)) {
         printf("    %ld:%d\n", strtol(found + 4, 0, 10) / PAGE, atoi(strstr(found, "order=") + 6));
      }
   }
   fclose(trace);
   close(file);
}

static void scan(long pages, long at_once)
{
   for (long page = 0; page < pages; page += at_once) {
      at(page);
      read(file, buffer, (size_t)(at_once * PAGE));
   }
}

static void map(long pages, int protection)
{
   mmap(AREA, (size_t)(pages * PAGE), protection, MAP_PRIVATE | MAP_FIXED, file, 0);
}

static void touch(long page)
{
   at(page);
   (void)*(volatile char*)(AREA + page * PAGE);
}

static void mapped(long pages)
{
   int entries = open("/proc/self/pagemap", O_RDONLY);
   long first = -1;
   printf("  mapped");
   for (long page = 0; page <= pages; page++) {
      uint64_t entry = 0;
      pread(entries, &entry, sizeof entry, ((long)AREA / PAGE + page) * (long)sizeof entry);
      int is_present = page < pages && entry >> 63;
      if (is_present && first < 0) {
         first = page;
      } else if (!is_present && first >= 0) {
         printf(" %ld..%ld", first, page - 1);
         first = -1;
      }
   }
   printf("\n");
   close(entries);
   munmap(AREA, (size_t)(pages * PAGE));
}

static void huge(const char* what, const char* name, long pages)
{
   begin(what, name);
   map(pages, PROT_READ);
   madvise(AREA, (size_t)(pages * PAGE), MADV_HUGEPAGE);
   touch(700);
   end();
   mapped(pages);
}

/* The fault is on a page of a folio that earlier reads brought in. */
static void around(const char* what, long page, long pages)
{
   begin(what, "/f/256");
   scan(100, 1);
   put("/t/trace", "");
   map(pages, PROT_READ);
   touch(page);
   end();
   mapped(pages);
}

/* Memory without a file, in the area of example L20. */
static void anonymous(const char* what, const long* pages, const char* writes)
{
   printf("%s\n", what);
   mmap(AREA + 3 * PAGE, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
   for (; *writes; writes++, pages++) {
      volatile char* byte = AREA + *pages * PAGE;
      if (*writes == 'w') {
         *byte = 1;
      } else {
         (void)*byte;
      }
   }
   mapped(80);
}

int main(void)
{
   const char* folders[] = { "/proc", "/sys", "/dev", "/t", "/f" };
   const char* kinds[] = { "proc", "sysfs", "devtmpfs", "tracefs" };
   for (int index = 0; index < 5; index++) {
      mkdir(folders[index], 0755);
      if (index < 4) {
         mount(kinds[index], folders[index], kinds[index], 0, "");
      }
   }
   dup2(open("/dev/ttyS1", O_WRONLY), 1);
   show("Linux ", "/proc/sys/kernel/osrelease");
   for (int index = 0; index < 20; index++) {
      char path[32];
      sprintf(path, "/m/%02d.ko", index);
      load(path, "");
   }
   load("/brd.ko", "rd_nr=1 rd_size=327680");
   int image = open("/image", O_RDONLY), disk = open("/dev/ram0", O_WRONLY);
   for (int64_t place; read(image, &place, sizeof place) == sizeof place;) {
      read(image, buffer, (size_t)PAGE);
      pwrite(disk, buffer, (size_t)PAGE, place);
   }
   close(disk);
   if (mount("/dev/ram0", "/f", KIND, 0, "")) {
      fail("mount", KIND);
   }
   put("/sys/block/ram0/queue/read_ahead_kb", "128");
   put("/t/events/filemap/mm_filemap_add_to_page_cache/enable", "1");
   marker = open("/t/trace_marker", O_WRONLY);
   make("/f/10", 10);
   make("/f/200", 200);
   make("/f/256", 256);
   make("/f/1000", 1000);
   make("/f/2048", 2048);
   sync();

   begin("L1", "/f/256");
   scan(256, 1);
   end();
   begin("L2", "/f/256");
   scan(256, 4);
   end();
   begin("L3", "/f/256");
   read(file, buffer, 1 << 20);
   end();
   begin("L4", "/f/10");
   scan(10, 1);
   end();
   begin("L5, 4 KiB", "/f/256");
   at(100);
   pread(file, buffer, (size_t)PAGE, 100 * PAGE);
   at(101);
   pread(file, buffer, (size_t)PAGE, 101 * PAGE);
   end();
   begin("L5, 64 KiB", "/f/256");
   pread(file, buffer, 65536, 100 * PAGE);
   end();
   begin("L6", "/f/2048");
   map(2048, PROT_READ);
   touch(1000);
   touch(1008);
   touch(1016);
   end();
   mapped(2048);
   begin("L7", "/f/200");
   map(200, PROT_READ | PROT_EXEC);
   touch(190);
   end();
   mapped(200);
   huge("L9, 2048 pages", "/f/2048", 2048);
   huge("L9, 1000 pages", "/f/1000", 1000);
   begin("L11", "/f/new1");
   pwrite(file, buffer, 200 << 10, PAGE);
   end();
   begin("L12, 2 MiB at 0", "/f/new2");
   pwrite(file, buffer, 2 << 20, 0);
   end();
   begin("L12, 8 KiB at 2 MiB - 4 KiB", "/f/new3");
   pwrite(file, buffer, 8192, (2 << 20) - PAGE);
   end();
   sync();
   around("L19, page 40", 40, 256);
   around("L19, page 72", 72, 256);
   around("L19, page 72 of an area of 82", 72, 82);
   put(HUGE "enabled", "never");
   put(HUGE "hugepages-64kB/enabled", "always");
   anonymous("L20", (const long[]){ 0x12, 0x8, 0x41 }, "www");
   anonymous("L21", (const long[]){ 0x15, 0x12 }, "rw");
   put(HUGE "hugepages-16kB/enabled", "always");
   anonymous("L21, also 16 KiB", (const long[]){ 0x15, 0x12 }, "rw");
   printf(failures ? "failed\n" : "done\n");
   fflush(stdout);
   sync();
   reboot(RB_POWER_OFF);
   return 0;
}
