// The calls that change a disk, watched: for the simulator, which kills, cuts the power and fills disks at any of them.
//
// The functions below take the place of libc's in the program that is linked with this, also for its libraries
// (SQLite). On a thread that watches nothing they only pass on.
#ifndef SIMULATED_DISK_H
#define SIMULATED_DISK_H

#include <stdint.h>

enum {
    DISK_WRITE = 1,     // bytes of a file; offset and length say which
    DISK_RESIZE = 2,    // truncate, allocate
    DISK_COPY = 3,      // ranges shared or copied inside the kernel
    DISK_RENAME = 4,    // path to other
    DISK_REMOVE = 5,    // path
    DISK_CREATE = 6,    // path
    DISK_SYNC = 7,      // a file or a folder
    DISK_SYNC_ALL = 8   // syncfs
};

typedef struct {
    int operation;
    int fd;             // -1 if a path says it
    const char *path;
    const char *other;
    int64_t offset;
    int64_t length;
} disk_event;

// Asked before the call. 0: it goes on. An errno: it fails with that. -1: it seems to succeed and does nothing.
typedef int (*disk_before)(void *context, const disk_event *event);
// Told after a call that succeeded.
typedef void (*disk_after)(void *context, const disk_event *event);

// Watches the calls of this thread; null ends it. What the watchers do themselves is not watched.
void simulated_disk_watch(disk_before before, disk_after after, void *context);

// Looks away, or again: for what the simulator itself does to the disk. Returns what it was.
int simulated_disk_look_away(int away);

// Removes a folder with all that is in it. A world leaves thousands of folders behind.
void simulated_disk_remove(const char *path);

#endif
