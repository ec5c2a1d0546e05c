// Intercepts the calls that change a disk, for the simulator: it kills, cuts the power and fills disks at any of them.
//
// In a program linked with this file, its functions replace libc's, also for libraries (SQLite). On a thread without a
// watcher they only forward the call.
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

// Called before the call. 0: it continues. An errno: it fails with that. -1: it does nothing and reports success.
typedef int (*disk_before)(void *context, const disk_event *event);
// Called after a successful call.
typedef void (*disk_after)(void *context, const disk_event *event);

// Watches the calls of this thread; null ends it. Calls of the watchers themselves are not watched.
void simulated_disk_watch(disk_before before, disk_after after, void *context);

// Suspends or resumes watching, for the simulator's own calls. Returns the earlier state.
int simulated_disk_look_away(int away);

// Removes a folder with everything in it. A world leaves thousands of folders.
void simulated_disk_remove(const char *path);

#endif
