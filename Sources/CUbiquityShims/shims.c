#define _GNU_SOURCE
#include "CUbiquityShims.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/fuse.h>
#include <linux/mount.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SAME(name) _Static_assert(CUbiquity_##name == name, #name " differs on this system")
SAME(O_DIRECT);
SAME(O_DIRECTORY);
SAME(O_NOFOLLOW);
SAME(O_TMPFILE);
SAME(O_PATH);
SAME(O_NOATIME);
SAME(AT_EMPTY_PATH);
SAME(XATTR_CREATE);
SAME(XATTR_REPLACE);
SAME(RENAME_NOREPLACE);
SAME(RENAME_EXCHANGE);
SAME(FALLOC_FL_KEEP_SIZE);
SAME(FALLOC_FL_PUNCH_HOLE);
SAME(FALLOC_FL_COLLAPSE_RANGE);
SAME(FALLOC_FL_ZERO_RANGE);
SAME(FALLOC_FL_INSERT_RANGE);
SAME(SEEK_DATA);
SAME(SEEK_HOLE);
SAME(POSIX_SPAWN_SETSID);
_Static_assert(sizeof(off_t) == 8, "files larger than 2 GiB need a 64-bit off_t");
_Static_assert(sizeof(struct CUbiquity_BackingMap) == 16, "struct fuse_backing_map has 16 bytes");

_Static_assert(sizeof(struct CUbiquity_OpenReply) == sizeof(struct fuse_open_out), "an open is answered like this");
_Static_assert(
    sizeof(struct CUbiquity_CreateReply) == sizeof(struct fuse_entry_out) + sizeof(struct fuse_open_out),
    "a create is answered like this");
_Static_assert(CUbiquity_FOPEN_DIRECT_IO == FOPEN_DIRECT_IO, "FOPEN_DIRECT_IO differs on this system");
_Static_assert(CUbiquity_FOPEN_NOFLUSH == FOPEN_NOFLUSH, "FOPEN_NOFLUSH differs on this system");

int CUbiquity_openat(int directory, const char *path, int flags, uint32_t mode) {
    return openat(directory, path, flags, (mode_t)mode);
}

ssize_t CUbiquity_lgetxattr(const char *path, const char *name, void *value, size_t size) {
    return lgetxattr(path, name, value, size);
}

int CUbiquity_lsetxattr(const char *path, const char *name, const void *value, size_t size, int flags) {
    return lsetxattr(path, name, value, size, flags);
}

int CUbiquity_lremovexattr(const char *path, const char *name) { return lremovexattr(path, name); }

ssize_t CUbiquity_llistxattr(const char *path, char *list, size_t size) { return llistxattr(path, list, size); }

ssize_t CUbiquity_fgetxattr(int fd, const char *name, void *value, size_t size) {
    return fgetxattr(fd, name, value, size);
}

int CUbiquity_fsetxattr(int fd, const char *name, const void *value, size_t size, int flags) {
    return fsetxattr(fd, name, value, size, flags);
}

int CUbiquity_fremovexattr(int fd, const char *name) { return fremovexattr(fd, name); }

ssize_t CUbiquity_flistxattr(int fd, char *list, size_t size) { return flistxattr(fd, list, size); }

int CUbiquity_renameat2(int fromDirectory, const char *from, int toDirectory, const char *to, uint32_t flags) {
    return renameat2(fromDirectory, from, toDirectory, to, flags);
}

ssize_t CUbiquity_copy_file_range(int from, int64_t *fromOffset, int to, int64_t *toOffset, size_t length) {
    return copy_file_range(from, (off_t *)fromOffset, to, (off_t *)toOffset, length, 0);
}

int CUbiquity_fallocate(int fd, int mode, int64_t offset, int64_t length) {
    return fallocate(fd, mode, offset, length);
}

int CUbiquity_clone(int fd, int source) { return ioctl(fd, FICLONE, source); }

int CUbiquity_spreadFolders(int directory) {
    int flags;
    if (ioctl(directory, FS_IOC_GETFLAGS, &flags) == -1) return -1;
    flags |= FS_TOPDIR_FL;
    return ioctl(directory, FS_IOC_SETFLAGS, &flags);
}

ssize_t CUbiquity_splice(int from, int64_t *fromOffset, int to, int64_t *toOffset, size_t length, uint32_t flags) {
    return splice(from, fromOffset, to, toOffset, length, flags);
}

int CUbiquity_syncfs(int fd) { return syncfs(fd); }

#define BILLION 1000000000

static int64_t now(clockid_t clock) {
    struct timespec time;
    syscall(SYS_clock_gettime, clock, &time);
    return (int64_t)time.tv_sec * BILLION + time.tv_nsec;
}

static struct timespec timeOf(int64_t nanoseconds) {
    return (struct timespec){.tv_sec = nanoseconds / BILLION, .tv_nsec = nanoseconds % BILLION};
}

int64_t CUbiquity_moment(int64_t nanoseconds) {
    int64_t moment;
    return __builtin_add_overflow(now(CLOCK_MONOTONIC), nanoseconds, &moment) ? INT64_MAX : moment;
}

int CUbiquity_waitForSemaphore(void *semaphore, int64_t nanoseconds) {
    struct timespec end = timeOf(CUbiquity_moment(nanoseconds));
    return sem_clockwait(semaphore, CLOCK_MONOTONIC, &end);
}

int CUbiquity_lockWithin(void *mutex, int64_t nanoseconds) {
    struct timespec end = timeOf(CUbiquity_moment(nanoseconds));
    return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &end);
}

void CUbiquity_returnMemory(void) { malloc_trim(0); }

int64_t CUbiquity_computedTime(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

void CUbiquity_pause(void) {
    for (int count = 0; count < 16; count++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

void CUbiquity_lockAwake(void *mutex, int64_t nanoseconds) {
    int64_t end = CUbiquity_moment(nanoseconds);
    while (pthread_mutex_trylock(mutex) != 0) {
        if (CUbiquity_moment(0) >= end) {
            pthread_mutex_lock(mutex);
            return;
        }
        CUbiquity_pause();
    }
}

int CUbiquity_waitForCondition(void *condition, void *mutex, int64_t end) {
    struct timespec time = timeOf(end);
    return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &time);
}

int64_t CUbiquity_bootTime(void) { return now(CLOCK_BOOTTIME); }

int CUbiquity_timerDescriptor(void) { return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK); }

int CUbiquity_setTimer(int fd, int64_t nanoseconds) {
    struct itimerspec time = {.it_value = timeOf(nanoseconds)};
    return timerfd_settime(fd, 0, &time, NULL);
}

int CUbiquity_flock(int fd, int operation) { return flock(fd, operation); }

int CUbiquity_birthTime(int directory, const char *path, int flags, struct CUbiquity_BirthTime *result) {
    struct statx status;
    if (statx(directory, path, flags, STATX_BTIME, &status) != 0) return -1;
    result->seconds = status.stx_btime.tv_sec;
    result->nanoseconds = status.stx_btime.tv_nsec;
    result->hasBirthTime = (status.stx_mask & STATX_BTIME) != 0;
    return 0;
}

int CUbiquity_startWriting(int fd) { return sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); }

int CUbiquity_finishWriting(int fd) {
    return sync_file_range(
        fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000U
#endif

int CUbiquity_mountNumber(const char *path, uint64_t *number) {
    struct statx status;
    if (statx(AT_FDCWD, path, 0, STATX_MNT_ID_UNIQUE, &status) != 0) return -1;
    *number = status.stx_mask & STATX_MNT_ID_UNIQUE ? status.stx_mnt_id : 0;
    return 0;
}

// <sys/mount.h>, which declares them, cannot be had beside <linux/fs.h> with Debian 12's glibc.
int CUbiquity_copyMount(const char *path) {
    return (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

// Debian 12's headers do not have it yet.
#ifndef MOVE_MOUNT_BENEATH
#define MOVE_MOUNT_BENEATH 0x200
#endif

int CUbiquity_moveBeneath(int mount, int top) {
    return (int)syscall(
        SYS_move_mount, mount, "", top, "",
        MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH | MOVE_MOUNT_BENEATH);
}

int CUbiquity_identity(int fd, struct CUbiquity_Identity *result) {
    struct statx status;
    int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
    if (statx(fd, "", flags, STATX_INO | STATX_MNT_ID_UNIQUE, &status) != 0) return -1;
    result->inode = status.stx_ino;
    result->mount = status.stx_mask & STATX_MNT_ID_UNIQUE ? status.stx_mnt_id : 0;
    result->deviceMajor = status.stx_dev_major;
    result->deviceMinor = status.stx_dev_minor;
    return 0;
}

int CUbiquity_strerror(int number, char *text, size_t size) {
    // With _GNU_SOURCE strerror_r may answer with a text of its own instead of filling the buffer.
    const char *found = strerror_r(number, text, size);
    if (found != text) snprintf(text, size, "%s", found);
    return 0;
}

void CUbiquity_nameThread(const char *name) {
    char kept[16];
    snprintf(kept, sizeof kept, "%s", name);
    pthread_setname_np(pthread_self(), kept);
}

int CUbiquity_fileSystemKind(int fd, int64_t *kind) {
    struct statfs status;
    if (fstatfs(fd, &status) != 0) return -1;
    *kind = status.f_type;
    return 0;
}

int CUbiquity_isUnplaced(int fd, uint64_t length) {
    enum { maximumExtents = 8 };
    struct {
        struct fiemap map;
        struct fiemap_extent extents[maximumExtents];
    } request = {.map = {.fm_length = length, .fm_extent_count = maximumExtents}};
    if (ioctl(fd, FS_IOC_FIEMAP, &request) != 0) return -1;
    uint64_t end = 0;
    for (uint32_t i = 0; i < request.map.fm_mapped_extents && i < maximumExtents; i++) {
        const struct fiemap_extent *extent = &request.map.fm_extents[i];
        if (!(extent->fe_flags & FIEMAP_EXTENT_DELALLOC) || extent->fe_logical > end) return 0;
        end = extent->fe_logical + extent->fe_length;
    }
    return end >= length;
}

int CUbiquity_startWriteback(int fd) {
    return sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE);
}

int CUbiquity_leaseForReading(int fd) {
    // The usual signal, SIGIO, ends a process that does not handle it.
    if (fcntl(fd, F_SETSIG, SIGURG) != 0) return -1;
    return fcntl(fd, F_SETLEASE, F_RDLCK);
}

int CUbiquity_endLease(int fd) { return fcntl(fd, F_SETLEASE, F_UNLCK); }

int CUbiquity_signalOnParentDeath(int signal) { return prctl(PR_SET_PDEATHSIG, signal); }

int CUbiquity_processDescriptor(int process) { return (int)syscall(SYS_pidfd_open, process, 0); }

int CUbiquity_backingOpen(int session, int fd) {
    struct CUbiquity_BackingMap map = {.fd = fd};
    return ioctl(session, _IOW(229, 1, struct CUbiquity_BackingMap), &map);
}

int CUbiquity_backingClose(int session, uint32_t backingID) {
    return ioctl(session, _IOW(229, 2, uint32_t), &backingID);
}

int CUbiquity_spawnActionsCloseFrom(posix_spawn_file_actions_t *actions, int first) {
    return posix_spawn_file_actions_addclosefrom_np(actions, first);
}

int CUbiquity_spawnActionsChangeDirectory(posix_spawn_file_actions_t *actions, const char *path) {
    return posix_spawn_file_actions_addchdir_np(actions, path);
}
