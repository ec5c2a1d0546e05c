// io_uring, as far as FUSE over it needs it (linux/fuse.h, kernel 6.14), and the layout of what the kernel passes.
//
// A ring is used by the thread alone that has opened it. The functions that can fail report as system calls
// do: -1 and errno.

#ifndef CUBIQUITY_RING_H
#define CUBIQUITY_RING_H

#include <stddef.h>
#include <stdint.h>

/// FUSE_OVER_IO_URING is bit 41 of the flags of INIT: bit 9 of their upper half.
#define CUbiquity_FUSE_OVER_IO_URING_FLAGS2 (1u << 9)
/// enum fuse_uring_cmd
#define CUbiquity_FUSE_RING_REGISTER 1u
#define CUbiquity_FUSE_RING_COMMIT_AND_FETCH 2u

/// struct fuse_uring_req_header: a request's and then its answer's header, the part of a request that is proper to its
/// kind, and what is said of the entry. Debian 12's headers do not have it yet.
struct CUbiquity_RingHeader {
    uint8_t message[128];
    uint8_t operation[128];
    uint64_t flags;
    uint64_t commitID;
    uint32_t payloadSize;
    uint32_t padding;
    uint64_t reserved;
};

struct CUbiquity_Ring {
    int descriptor;
    /// The number by which the thread that has opened it knows it; -1 if it is known by its descriptor only.
    int registered;
    /// Submissions that the kernel has not been told of.
    uint32_t prepared;
    uint32_t submissionCount, submissionMask, completionMask;
    uint32_t *submissionHead, *submissionTail, *completionHead, *completionTail;
    uint8_t *submissions;
    void *completions, *queues;
    size_t submissionsSize, queuesSize;
};

/// Makes a ring whose submissions have 128 bytes, as FUSE wants them.
int CUbiquity_ringOpen(struct CUbiquity_Ring *ring, uint32_t submissions, uint32_t completions);
void CUbiquity_ringClose(struct CUbiquity_Ring *ring);
/// Has the kernel not look the ring up each time. Where it does not know how, it goes on doing so. (Not so the session:
/// a ring that has its file too gives it up some time after the process has ended, and the mount would only then end.)
void CUbiquity_ringRemember(struct CUbiquity_Ring *ring);

/// Prepares a command of FUSE. `vector` has the entry's header and payload, and is only looked at to register them.
/// EBUSY: as many as there is room for are prepared; they must be submitted first.
int CUbiquity_ringPrepareCommand(
    struct CUbiquity_Ring *ring, int session, uint32_t command, uint16_t queue, uint64_t commitID, const void *vector,
    uint64_t mark);
/// Prepares a read(2).
int CUbiquity_ringPrepareRead(
    struct CUbiquity_Ring *ring, int descriptor, void *buffer, uint32_t length, uint64_t mark);
/// Submits what is prepared, and waits until there are so many completions (io_uring_enter).
int CUbiquity_ringSubmit(struct CUbiquity_Ring *ring, uint32_t completions);
/// Takes the oldest completion; 0 if there is none.
int CUbiquity_ringTake(struct CUbiquity_Ring *ring, uint64_t *mark, int32_t *result);
int CUbiquity_ringHasCompletions(const struct CUbiquity_Ring *ring);

/// eventfd(2), closed on exec.
int CUbiquity_eventDescriptor(void);
/// sched_getaffinity(2) and sched_setaffinity(2) with words of 64 cores each; thread 0 is the calling one.
int CUbiquity_cores(int thread, uint64_t *cores, size_t words);
int CUbiquity_setCores(int thread, const uint64_t *cores, size_t words);
/// The core that the calling thread runs on; below 0 if that is not known.
int CUbiquity_core(void);
/// Gives a thread the lowest priority (SCHED_IDLE) or the usual one; thread 0 is the calling one.
int CUbiquity_setIdlePolicy(int thread, int isIdle);
int CUbiquity_hasIdlePolicy(int thread);
/// Has the disk serve the calling thread as its nice value says, whatever its policy becomes: one of the lowest
/// priority would have to wait there till nobody else wants anything. A class that it was given (ionice) stays.
int CUbiquity_keepDiskPriority(void);
/// Whether this process may give its threads the usual priority again.
int CUbiquity_mayChangePolicy(void);
/// The number of the calling thread, as in /proc/self/task.
int CUbiquity_threadNumber(void);
/// Address space that takes no memory until it is written to; null if there is none.
void *CUbiquity_reserve(size_t size);
/// Gives back the memory of pages, which are zeros then.
int CUbiquity_giveBack(void *region, size_t size);
int CUbiquity_release(void *region, size_t size);

#endif
