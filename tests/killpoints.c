/* Preloaded into a process and its children: counts the calls by which they change files or start programs, and kills
   them at one of them. The file that KILLPOINTS names holds the count, shared by all processes of one run. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

struct control {
  _Atomic uint64_t count; /* calls so far */
  uint64_t kill_at;       /* die at this one; 0: never */
  uint64_t leader_only;   /* kill the process group's leader, and let its children go on */
  uint64_t commands;      /* count the ends of the leader's child processes (git's, above all) instead of the calls */
  char kind[40];          /* name of the call at which it happened */
};

static struct control *control;

void killpoints_arm(const char *path) {
  int (*real_open)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
  int fd = real_open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) abort();
  void *map = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) abort();
  close(fd);
  control = map;
}

void killpoints_disarm(void) { control = NULL; }

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("KILLPOINTS");
  if (path) killpoints_arm(path);
}

static int reached(void) { return atomic_fetch_add(&control->count, 1) + 1 == control->kill_at; }

static int due(void) { return control && !control->commands && reached(); }

static void die(const char *kind) {
  strncpy(control->kind, kind, sizeof control->kind - 1);
  if (control->leader_only && getpid() != getpgrp()) {
    kill(getpgrp(), SIGKILL);
    return;
  }
  kill(control->leader_only ? getpid() : 0, SIGKILL);
  for (;;) pause();
}

static void point(const char *kind) {
  if (due()) die(kind);
}

static int is_file(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

#define REAL(name) \
  static __typeof__(name) *real; \
  if (!real) real = dlsym(RTLD_NEXT, #name)

#define SIMPLE(result, name, parameters, arguments) \
  result name parameters { \
    REAL(name); \
    point(#name); \
    return real arguments; \
  }

#define OPENING(name, parameters, arguments, last) \
  int name parameters { \
    REAL(name); \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
      va_list more; \
      va_start(more, last); \
      mode = va_arg(more, mode_t); \
      va_end(more); \
    } \
    if (flags & (O_CREAT | O_TRUNC)) point(#name); \
    return real arguments; \
  }

OPENING(open, (const char *path, int flags, ...), (path, flags, mode), flags)
OPENING(open64, (const char *path, int flags, ...), (path, flags, mode), flags)
OPENING(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode), flags)
OPENING(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode), flags)

/* A write is torn: half of it is done. */
ssize_t write(int fd, const void *data, size_t size) {
  REAL(write);
  if (control && is_file(fd) && due()) {
    ssize_t half = real(fd, data, size / 2);
    die("write");
    return half < 0 ? half : half + real(fd, (const char *)data + half, size - half);
  }
  return real(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  REAL(writev);
  if (control && is_file(fd)) point("writev");
  return real(fd, parts, count);
}

SIMPLE(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t offset), (fd, data, size, offset))
SIMPLE(int, ftruncate64, (int fd, off64_t size), (fd, size))
SIMPLE(int, fsync, (int fd), (fd))
SIMPLE(int, fdatasync, (int fd), (fd))
SIMPLE(int, rename, (const char *from, const char *to), (from, to))
SIMPLE(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
SIMPLE(int, link, (const char *from, const char *to), (from, to))
SIMPLE(int, linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags))
SIMPLE(int, symlink, (const char *from, const char *to), (from, to))
SIMPLE(int, unlink, (const char *path), (path))
SIMPLE(int, unlinkat, (int at, const char *path, int flags), (at, path, flags))
SIMPLE(int, rmdir, (const char *path), (path))
SIMPLE(int, mkdir, (const char *path, mode_t mode), (path, mode))
SIMPLE(int, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode))
SIMPLE(int, chmod, (const char *path, mode_t mode), (path, mode))

/* Python's subprocess learns here that a command has ended. */
pid_t waitpid(pid_t child, int *status, int options) {
  REAL(waitpid);
  pid_t ended = real(child, status, options);
  if (control && control->commands && ended > 0 && getpid() == getpgrp() && reached()) die("end of a command");
  return ended;
}

/* Programs are looked for in every folder of PATH: only where there is one is it a step of its own. */
#define STARTING(name, parameters, arguments) \
  int name parameters { \
    REAL(name); \
    if (control && access(path, X_OK) == 0) point(#name); \
    return real arguments; \
  }

STARTING(execve, (const char *path, char *const argv[], char *const env[]), (path, argv, env))
STARTING(execv, (const char *path, char *const argv[]), (path, argv))
