// What the Swift importer does not see of glibc and the kernel: the calls behind _GNU_SOURCE, function-like macros,
// ioctls and calls with a variable number of arguments.
//
// Every function does exactly one system call and reports as it does: -1 and errno. The constants are written out,
// because macros behind _GNU_SOURCE are not imported; shims.c asserts that each equals the system's.

#ifndef CUBIQUITY_SHIMS_H
#define CUBIQUITY_SHIMS_H

#include <time.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// openat
#if defined(__aarch64__) || defined(__arm__)
#define CUbiquity_O_DIRECT 0200000
#define CUbiquity_O_DIRECTORY 0040000
#define CUbiquity_O_NOFOLLOW 0100000
#define CUbiquity_O_TMPFILE 020040000
#else
#define CUbiquity_O_DIRECT 0040000
#define CUbiquity_O_DIRECTORY 0200000
#define CUbiquity_O_NOFOLLOW 0400000
#define CUbiquity_O_TMPFILE 020200000
#endif
#define CUbiquity_O_PATH 010000000
#define CUbiquity_O_NOATIME 01000000
#define CUbiquity_AT_EMPTY_PATH 0x1000

int CUbiquity_openat(int directory, const char *path, int flags, uint32_t mode);

// Extended attributes. The calls without a descriptor act on a symlink itself, not on what it points to.
#define CUbiquity_XATTR_CREATE 1
#define CUbiquity_XATTR_REPLACE 2

ssize_t CUbiquity_lgetxattr(const char *path, const char *name, void *value, size_t size);
int CUbiquity_lsetxattr(const char *path, const char *name, const void *value, size_t size, int flags);
int CUbiquity_lremovexattr(const char *path, const char *name);
ssize_t CUbiquity_llistxattr(const char *path, char *list, size_t size);
ssize_t CUbiquity_fgetxattr(int fd, const char *name, void *value, size_t size);
int CUbiquity_fsetxattr(int fd, const char *name, const void *value, size_t size, int flags);
int CUbiquity_fremovexattr(int fd, const char *name);
ssize_t CUbiquity_flistxattr(int fd, char *list, size_t size);

// renameat2
#define CUbiquity_RENAME_NOREPLACE 1
#define CUbiquity_RENAME_EXCHANGE 2

int CUbiquity_renameat2(int fromDirectory, const char *from, int toDirectory, const char *to, uint32_t flags);

// Copying, cloning, making room, holes
#define CUbiquity_FALLOC_FL_KEEP_SIZE 1
#define CUbiquity_FALLOC_FL_PUNCH_HOLE 2
#define CUbiquity_FALLOC_FL_COLLAPSE_RANGE 8
#define CUbiquity_FALLOC_FL_ZERO_RANGE 16
#define CUbiquity_FALLOC_FL_INSERT_RANGE 32
#define CUbiquity_SEEK_DATA 3
#define CUbiquity_SEEK_HOLE 4

ssize_t CUbiquity_copy_file_range(int from, int64_t *fromOffset, int to, int64_t *toOffset, size_t length);
int CUbiquity_fallocate(int fd, int mode, int64_t offset, int64_t length);
/// FICLONE: makes `fd` share the whole content of `source`.
int CUbiquity_clone(int fd, int source);
/// FS_TOPDIR_FL: folders made in this one are put in places of their own on the disk (ext4).
int CUbiquity_spreadFolders(int directory);
int CUbiquity_syncfs(int fd);
/// sync_file_range(2) of the whole file: waits for pages that are on their way to the disk, and sends the dirty ones.
int CUbiquity_startWriteback(int fd);
/// Takes a lease for reading (F_SETLEASE). It is only given while nobody has the file open or mapped for writing; else
/// -1 and EAGAIN. Who opens it for writing meanwhile waits, and this process gets a SIGURG, which it ignores.
int CUbiquity_leaseForReading(int fd);
int CUbiquity_endLease(int fd);
/// Whether the file's first `length` bytes have been written to, all of them, and no place on the disk was chosen for
/// any of them yet (FS_IOC_FIEMAP, FIEMAP_EXTENT_DELALLOC): 1 or 0.
int CUbiquity_isUnplaced(int fd, uint64_t length);
/// The kind of file system `fd` is on (fstatfs), as in linux/magic.h.
int CUbiquity_fileSystemKind(int fd, int64_t *kind);
/// splice(2). A null offset is the descriptor's own position (a pipe has no other).
ssize_t CUbiquity_splice(int from, int64_t *fromOffset, int to, int64_t *toOffset, size_t length, uint32_t flags);
/// The moment so many nanoseconds from now, by the kernel's monotonic clock. Not by the C library's: a library that is
/// loaded before it to shift a program's clocks (faketime) shifts that and not all of the waits that go by it.
int64_t CUbiquity_moment(int64_t nanoseconds);
/// sem_clockwait(3), for so many nanoseconds.
int CUbiquity_waitForSemaphore(void *semaphore, int64_t nanoseconds);
/// pthread_mutex_clocklock(3), for so many nanoseconds: 0, or the error's number.
int CUbiquity_lockWithin(void *mutex, int64_t nanoseconds);
/// pthread_mutex_lock(3); the first nanoseconds are waited without sleeping.
void CUbiquity_lockAwake(void *mutex, int64_t nanoseconds);
/// malloc_trim(3) of all that is free.
void CUbiquity_returnMemory(void);
/// Nanoseconds that all threads of this process have computed.
int64_t CUbiquity_computedTime(void);
/// Some fraction of a microsecond, for who waits without sleeping.
void CUbiquity_pause(void);
/// pthread_cond_clockwait(3) until a moment of `CUbiquity_moment`: 0, or the error's number.
int CUbiquity_waitForCondition(void *condition, void *mutex, int64_t end);

/// Nanoseconds since the machine started, sleep included (CLOCK_BOOTTIME), by the kernel.
int64_t CUbiquity_bootTime(void);
/// timerfd_create(2) on that clock.
int CUbiquity_timerDescriptor(void);
/// The timer's descriptor is readable so many nanoseconds from now; with 0 never.
int CUbiquity_setTimer(int fd, int64_t nanoseconds);
/// flock(2); in Swift the name means the structure of fcntl.
int CUbiquity_flock(int fd, int operation);

/// The moment a file was made, by statx. `hasBirthTime` is 0 where the file system does not keep it.
struct CUbiquity_BirthTime {
    int64_t seconds;
    uint32_t nanoseconds;
    uint32_t hasBirthTime;
};
int CUbiquity_birthTime(int directory, const char *path, int flags, struct CUbiquity_BirthTime *result);

int CUbiquity_startWriting(int fd);
/// sync_file_range(2) of the whole file: sends what is dirty to the disk and waits until that has it.
int CUbiquity_finishWriting(int fd);

/// The number of the mount that a path is in, which no other mount of this boot ever has; 0 before Linux 6.8.
int CUbiquity_mountNumber(const char *path, uint64_t *number);

/// open_tree(2): a copy of the mount that a path leads to, which is nowhere yet. Linux 5.2.
int CUbiquity_copyMount(const char *path);
/// move_mount(2): puts such a copy beneath the mount whose top folder is open. Linux 6.5.
int CUbiquity_moveBeneath(int mount, int top);

/// What a descriptor is of, as far as the kernel knows it without asking the file system. `mount` is as above.
struct CUbiquity_Identity {
    uint64_t inode, mount;
    uint32_t deviceMajor, deviceMinor;
};
int CUbiquity_identity(int fd, struct CUbiquity_Identity *result);

/// The text of an error number, in any language the process uses; the XSI strerror_r.
int CUbiquity_strerror(int number, char *text, size_t size);
/// Names the calling thread (at most 15 bytes are kept), so that ps -T and a debugger tell the pools apart.
void CUbiquity_nameThread(const char *name);
/// Ties this process's life to its parent's: it gets `signal` when the thread that started it ends.
int CUbiquity_signalOnParentDeath(int signal);
/// pidfd_open(2): readable when the process has ended; closed on exec.
int CUbiquity_processDescriptor(int process);

// posix_spawn's extensions
#define CUbiquity_POSIX_SPAWN_SETSID 0x80

/// The child closes every descriptor from `first` on.
int CUbiquity_spawnActionsCloseFrom(posix_spawn_file_actions_t *actions, int first);
/// The child starts in `path`.
int CUbiquity_spawnActionsChangeDirectory(posix_spawn_file_actions_t *actions, const char *path);

// FUSE passthrough (linux/fuse.h, kernel 6.9): a backing file is registered on the session's descriptor and an open
// is answered with its id. Debian 12's headers do not have it yet.
struct CUbiquity_BackingMap {
    int32_t fd;
    uint32_t flags;
    uint64_t padding;
};
#define CUbiquity_FOPEN_DIRECT_IO (1u << 0)
#define CUbiquity_FOPEN_NOFLUSH (1u << 5)
#define CUbiquity_FOPEN_PASSTHROUGH (1u << 7)
#define CUbiquity_FUSE_INIT_EXT (1u << 30)
/// FUSE_DIRECT_IO_ALLOW_MMAP, bit 36 of the flags: bit 4 of their upper half. What is read past the page cache may be
/// mapped.
#define CUbiquity_FUSE_MAPPING_FLAGS2 (1u << 4)
/// FUSE_PASSTHROUGH is bit 37.
#define CUbiquity_FUSE_PASSTHROUGH_FLAGS2 (1u << 5)

/// The answers to open and create as the kernel takes them: libfuse 3.14 leaves out the backing id.
struct CUbiquity_OpenReply {
    uint64_t handle;
    uint32_t flags;
    int32_t backing;
};
struct CUbiquity_CreateReply {
    uint64_t node, generation, entrySeconds, attributeSeconds;
    uint32_t entryNanoseconds, attributeNanoseconds;
    uint64_t inode, size, blocks, accessed, modified, changed;
    uint32_t accessedNanoseconds, modifiedNanoseconds, changedNanoseconds;
    uint32_t mode, links, user, group, device, blockSize, attributeFlags;
    struct CUbiquity_OpenReply open;
};

/// The backing id of `fd` (positive), or -1.
int CUbiquity_backingOpen(int session, int fd);
int CUbiquity_backingClose(int session, uint32_t backingID);

#include "CUbiquityRing.h"

#endif
