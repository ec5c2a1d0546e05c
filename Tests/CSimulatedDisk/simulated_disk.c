#define _GNU_SOURCE
#include "simulated_disk.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static _Thread_local struct {
    disk_before before;
    disk_after after;
    void *context;
    int is_busy;
} watch;

void simulated_disk_watch(disk_before before, disk_after after, void *context) {
    watch.before = before;
    watch.after = after;
    watch.context = context;
}

int simulated_disk_look_away(int away) {
    int before = watch.is_busy;
    watch.is_busy = away;
    return before;
}

static int ask(const disk_event *event) {
    if (!watch.before || watch.is_busy) return 0;
    int saved = errno;
    watch.is_busy = 1;
    int verdict = watch.before(watch.context, event);
    watch.is_busy = 0;
    errno = saved;
    return verdict;
}

static void tell(const disk_event *event) {
    if (!watch.after || watch.is_busy) return;
    int saved = errno;
    watch.is_busy = 1;
    watch.after(watch.context, event);
    watch.is_busy = 0;
    errno = saved;
}

// The next definition of the surrounding function: libc's.
#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define WATCHED(event, done, call) \
    do { \
        disk_event told = event; \
        int verdict = ask(&told); \
        if (verdict > 0) { \
            errno = verdict; \
            return -1; \
        } \
        if (verdict < 0) return done; \
        __typeof__(call) result = call; \
        if (result >= 0) tell(&told); \
        return result; \
    } while (0)

#define ON_FILE(...) ((disk_event){__VA_ARGS__})
#define ON_PATH(...) ((disk_event){.fd = -1, __VA_ARGS__})

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) {
    REAL(pwrite);
    WATCHED(ON_FILE(.operation = DISK_WRITE, .fd = fd, .offset = offset, .length = (int64_t)count), (ssize_t)count,
            real(fd, bytes, count, offset));
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) {
    REAL(pwrite64);
    WATCHED(ON_FILE(.operation = DISK_WRITE, .fd = fd, .offset = offset, .length = (int64_t)count), (ssize_t)count,
            real(fd, bytes, count, offset));
}

int ftruncate(int fd, off_t length) {
    REAL(ftruncate);
    WATCHED(ON_FILE(.operation = DISK_RESIZE, .fd = fd, .length = length), 0, real(fd, length));
}

int ftruncate64(int fd, off64_t length) {
    REAL(ftruncate64);
    WATCHED(ON_FILE(.operation = DISK_RESIZE, .fd = fd, .length = length), 0, real(fd, length));
}

int fallocate(int fd, int mode, off_t offset, off_t length) {
    REAL(fallocate);
    WATCHED(ON_FILE(.operation = DISK_COPY, .fd = fd), 0, real(fd, mode, offset, length));
}

int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
    REAL(fallocate64);
    WATCHED(ON_FILE(.operation = DISK_COPY, .fd = fd), 0, real(fd, mode, offset, length));
}

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *offset, size_t count, unsigned int flags) {
    REAL(copy_file_range);
    WATCHED(ON_FILE(.operation = DISK_COPY, .fd = to), (ssize_t)count, real(from, at, to, offset, count, flags));
}

int renameat2(int from, const char *path, int to, const char *other, unsigned int flags) {
    REAL(renameat2);
    WATCHED(ON_PATH(.operation = DISK_RENAME, .path = path, .other = other), 0, real(from, path, to, other, flags));
}

int unlink(const char *path) {
    REAL(unlink);
    WATCHED(ON_PATH(.operation = DISK_REMOVE, .path = path), 0, real(path));
}

int rmdir(const char *path) {
    REAL(rmdir);
    WATCHED(ON_PATH(.operation = DISK_REMOVE, .path = path), 0, real(path));
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    WATCHED(ON_PATH(.operation = DISK_CREATE, .path = path), 0, real(path, mode));
}

#define MODE_ARGUMENT \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list arguments; \
        va_start(arguments, flags); \
        mode = (mode_t)va_arg(arguments, int); \
        va_end(arguments); \
    }

#define IS_NEW(path, flags) (((flags) & O_CREAT) && watch.before && access(path, F_OK) != 0)

int open64(const char *path, int flags, ...) {
    MODE_ARGUMENT
    REAL(open64);
    if (!IS_NEW(path, flags)) return real(path, flags, mode);
    WATCHED(ON_PATH(.operation = DISK_CREATE, .path = path), -1, real(path, flags, mode));
}

int openat(int directory, const char *path, int flags, ...) {
    MODE_ARGUMENT
    REAL(openat);
    if (!IS_NEW(path, flags)) return real(directory, path, flags, mode);
    WATCHED(ON_PATH(.operation = DISK_CREATE, .path = path), -1, real(directory, path, flags, mode));
}

int fsync(int fd) {
    REAL(fsync);
    WATCHED(ON_FILE(.operation = DISK_SYNC, .fd = fd), 0, real(fd));
}

int fdatasync(int fd) {
    REAL(fdatasync);
    WATCHED(ON_FILE(.operation = DISK_SYNC, .fd = fd), 0, real(fd));
}

int syncfs(int fd) {
    REAL(syncfs);
    WATCHED(ON_FILE(.operation = DISK_SYNC_ALL, .fd = fd), 0, real(fd));
}

// Locks between processes (SQLite's) are omitted: a world is in one process, which has the disk for itself. Each lock
// costs a system call, several per transaction. SQLite keeps the locks between connections of one process in memory.
int fcntl64(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    REAL(fcntl64);
    if (command == F_SETLK && watch.before) return 0;
    return real(fd, command, argument);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status;
    (void)kind;
    (void)place;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

void simulated_disk_remove(const char *path) { (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }
