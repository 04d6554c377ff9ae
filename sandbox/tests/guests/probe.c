// A program that tries one thing and says how it went: the guest of the component tests. The first argument says what.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int went(int failed, const char *what) {
  if (failed) {
    printf("%s: %s\n", what, strerror(errno));
    return 1;
  }
  printf("%s: done\n", what);
  return 0;
}

static int put(const char *path, int flags, const char *text) {
  int file = open(path, flags, 0666);
  if (file < 0) return went(1, "open");
  int failed = write(file, text, strlen(text)) != (ssize_t)strlen(text);
  return went(close(file) || failed, "write");
}

static int copy_out(FILE *file) {
  static char buffer[65536];
  size_t read;
  while ((read = fread(buffer, 1, sizeof buffer, file)) > 0) fwrite(buffer, 1, read, stdout);
  return went(ferror(file), "read");
}

static int list(const char *path) {
  DIR *directory = opendir(path);
  if (!directory) return went(1, "list");
  for (struct dirent *entry; (entry = readdir(directory));) puts(entry->d_name);
  return went(closedir(directory), "list");
}

__attribute__((noinline)) static int deeper(volatile int *above) {
  volatile int here[16] = {*above + 1};
  return *above < 0 ? 0 : deeper(here) + here[3];
}

static int memory(long megabytes) {
  static char *volatile kept;
  for (long i = 0; i < megabytes; i++) {
    char *block = malloc(1 << 20);
    if (!block) return went(1, "memory");
    memset(block, 1, 1 << 20);
    kept = block;
  }
  return went(kept == 0, "memory");
}

// A file of so many bytes, written in pieces.
static int fill(const char *path, long long bytes) {
  static char zeros[65536];
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0) return went(1, "open");
  for (; bytes > 0; bytes -= (long long)sizeof zeros)
    if (write(file, zeros, sizeof zeros) < 0) return went(1, "fill");
  return went(0, "fill");
}

// So many files, each held open if asked to.
static int files(const char *directory, long count, int hold) {
  char path[512];
  for (long i = 0; i < count; i++) {
    snprintf(path, sizeof path, "%s/f%ld", directory, i);
    int file = open(path, O_WRONLY | O_CREAT, 0666);
    if (file < 0) return went(1, "files");
    if (!hold) close(file);
  }
  return went(0, "files");
}

static int times(const char *path, int by_handle) {
  struct timespec then[2] = {{1000, 0}, {1000, 0}};
  if (!by_handle) return went(utimensat(AT_FDCWD, path, then, 0), "times");
  int file = open(path, O_RDONLY);
  return went(file < 0 || futimens(file, then), "times");
}

int main(int count, char **words) {
  const char *what = count > 1 ? words[1] : "", *a = count > 2 ? words[2] : "", *b = count > 3 ? words[3] : "";
  struct stat seen;
  char target[512];
  if (!strcmp(what, "say")) return puts(a) < 0;
  if (!strcmp(what, "both")) return fputs("one ", stdout), fflush(stdout), fputs("two ", stderr), fputs("three", stdout), 0;
  if (!strcmp(what, "exit")) return atoi(a);
  if (!strcmp(what, "environment")) {
    for (char **entry = environ; entry && *entry; entry++) puts(*entry);
    for (int i = 0; i < count; i++) puts(words[i]);
    return 0;
  }
  if (!strcmp(what, "stdin")) return copy_out(stdin);
  if (!strcmp(what, "read")) {
    FILE *file = fopen(a, "rb");
    return file ? copy_out(file) : went(1, "read");
  }
  if (!strcmp(what, "write")) return put(a, O_WRONLY | O_CREAT | O_TRUNC, b);
  if (!strcmp(what, "append")) return put(a, O_WRONLY | O_APPEND, b);
  if (!strcmp(what, "overwrite")) return put(a, O_WRONLY, b);
  if (!strcmp(what, "new")) return put(a, O_WRONLY | O_CREAT | O_EXCL, b);
  if (!strcmp(what, "truncate")) return went(truncate(a, atoll(b)), what);
  if (!strcmp(what, "open-truncate")) return went(open(a, O_RDONLY | O_TRUNC) < 0, what);
  if (!strcmp(what, "list")) return list(a);
  if (!strcmp(what, "stat")) return went(stat(a, &seen), what) ? 1 : printf("%lld bytes\n", (long long)seen.st_size) < 0;
  if (!strcmp(what, "mkdir")) return went(mkdir(a, 0777), what);
  if (!strcmp(what, "rmdir")) return went(rmdir(a), what);
  if (!strcmp(what, "remove")) return went(unlink(a), what);
  if (!strcmp(what, "rename")) return went(rename(a, b), what);
  if (!strcmp(what, "link")) return went(link(a, b), what);
  if (!strcmp(what, "symlink")) return went(symlink(a, b), what);
  if (!strcmp(what, "readlink")) {
    ssize_t length = readlink(a, target, sizeof target - 1);
    if (length < 0) return went(1, what);
    target[length] = 0;
    return puts(target) < 0;
  }
  if (!strcmp(what, "times")) return times(a, 0);
  if (!strcmp(what, "handle-times")) return times(a, 1);
  if (!strcmp(what, "spin"))
    for (volatile unsigned turns = 0;; turns++) {}
  if (!strcmp(what, "sleep")) return went(nanosleep(&(struct timespec){atol(a), 0}, NULL), what);
  if (!strcmp(what, "memory")) return memory(atol(a));
  if (!strcmp(what, "deeper")) return deeper(&(volatile int){0});
  if (!strcmp(what, "flood"))
    for (long long left = atoll(a); left > 0; left -= 64) puts("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde");
  if (!strcmp(what, "flood")) return 0;
  if (!strcmp(what, "fill")) return fill(a, atoll(b));
  if (!strcmp(what, "files")) return files(a, atol(b), 0);
  if (!strcmp(what, "handles")) return files(a, atol(b), 1);
  if (!strcmp(what, "abort")) abort();
  return puts("unknown"), 9;
}
