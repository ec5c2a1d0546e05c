#define _GNU_SOURCE
#include "CUbiquityRing.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

// The layouts are those of linux/fuse.h of kernel 6.14.
_Static_assert(sizeof(struct CUbiquity_RingHeader) == 288, "struct fuse_uring_req_header has 288 bytes");
_Static_assert(offsetof(struct CUbiquity_RingHeader, payloadSize) == 272, "struct fuse_uring_ent_in_out begins at 256");

/// struct fuse_uring_cmd_req
struct CommandRequest {
    uint64_t flags;
    uint64_t commitID;
    uint16_t queue;
    uint8_t padding[6];
};

enum { submissionSize = 128 };

static int failed(struct CUbiquity_Ring *ring) {
    int error = errno;
    CUbiquity_ringClose(ring);
    errno = error;
    return -1;
}

int CUbiquity_ringOpen(struct CUbiquity_Ring *ring, uint32_t submissions, uint32_t completions) {
    // One command that fails must not hold up those behind it. With deferred work requests are put into the entries
    // only during a submission or wait of the ring's thread.
    const uint32_t flags =
        IORING_SETUP_SQE128 | IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER |
        IORING_SETUP_DEFER_TASKRUN;
    struct io_uring_params params = {.flags = flags, .cq_entries = completions};
    memset(ring, 0, sizeof *ring);
    ring->registered = -1;
    ring->descriptor = (int)syscall(SYS_io_uring_setup, submissions, &params);
    if (ring->descriptor < 0) return -1;
    if (!(params.features & IORING_FEAT_SINGLE_MMAP)) {
        errno = ENOSYS;
        return failed(ring);
    }
    size_t submissionsEnd = params.sq_off.array + params.sq_entries * sizeof(uint32_t);
    size_t completionsEnd = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    ring->queuesSize = submissionsEnd > completionsEnd ? submissionsEnd : completionsEnd;
    ring->submissionsSize = (size_t)params.sq_entries * submissionSize;
    const int access = PROT_READ | PROT_WRITE, kind = MAP_SHARED | MAP_POPULATE;
    void *queues = mmap(NULL, ring->queuesSize, access, kind, ring->descriptor, IORING_OFF_SQ_RING);
    if (queues == MAP_FAILED) return failed(ring);
    ring->queues = queues;
    void *entries = mmap(NULL, ring->submissionsSize, access, kind, ring->descriptor, IORING_OFF_SQES);
    if (entries == MAP_FAILED) return failed(ring);
    ring->submissions = entries;
    ring->submissionCount = params.sq_entries;
    ring->submissionMask = params.sq_entries - 1;
    ring->completionMask = params.cq_entries - 1;
    ring->submissionHead = (uint32_t *)((uint8_t *)queues + params.sq_off.head);
    ring->submissionTail = (uint32_t *)((uint8_t *)queues + params.sq_off.tail);
    ring->completionHead = (uint32_t *)((uint8_t *)queues + params.cq_off.head);
    ring->completionTail = (uint32_t *)((uint8_t *)queues + params.cq_off.tail);
    ring->completions = (uint8_t *)queues + params.cq_off.cqes;
    uint32_t *order = (uint32_t *)((uint8_t *)queues + params.sq_off.array);
    for (uint32_t place = 0; place < params.sq_entries; place++) order[place] = place;
    return 0;
}

void CUbiquity_ringClose(struct CUbiquity_Ring *ring) {
    if (ring->registered >= 0) {
        struct io_uring_rsrc_update place = {.offset = (uint32_t)ring->registered};
        syscall(SYS_io_uring_register, ring->descriptor, IORING_UNREGISTER_RING_FDS, &place, 1);
    }
    if (ring->submissions) munmap(ring->submissions, ring->submissionsSize);
    if (ring->queues) munmap(ring->queues, ring->queuesSize);
    if (ring->descriptor >= 0) close(ring->descriptor);
    memset(ring, 0, sizeof *ring);
    ring->descriptor = ring->registered = -1;
}

void CUbiquity_ringRemember(struct CUbiquity_Ring *ring) {
    struct io_uring_rsrc_update place = {.offset = -1U, .data = (uint64_t)ring->descriptor};
    if (syscall(SYS_io_uring_register, ring->descriptor, IORING_REGISTER_RING_FDS, &place, 1) == 1)
        ring->registered = (int)place.offset;
}

/// A free submission, zeroed and counted as prepared; null if there is none. The kernel looks only when it is told to.
static struct io_uring_sqe *prepare(struct CUbiquity_Ring *ring) {
    uint32_t tail = *ring->submissionTail;
    if (tail - __atomic_load_n(ring->submissionHead, __ATOMIC_ACQUIRE) >= ring->submissionCount) {
        errno = EBUSY;
        return NULL;
    }
    void *submission = ring->submissions + (size_t)(tail & ring->submissionMask) * submissionSize;
    memset(submission, 0, submissionSize);
    __atomic_store_n(ring->submissionTail, tail + 1, __ATOMIC_RELEASE);
    ring->prepared++;
    return submission;
}

int CUbiquity_ringPrepareCommand(
    struct CUbiquity_Ring *ring, int session, uint32_t command, uint16_t queue, uint64_t commitID, const void *vector,
    uint64_t mark) {
    struct io_uring_sqe *submission = prepare(ring);
    if (!submission) return -1;
    submission->opcode = IORING_OP_URING_CMD;
    submission->fd = session;
    submission->cmd_op = command;
    submission->user_data = mark;
    if (vector) {
        submission->addr = (uint64_t)(uintptr_t)vector;
        submission->len = 2;
    }
    struct CommandRequest request = {.commitID = commitID, .queue = queue};
    memcpy(submission->cmd, &request, sizeof request);
    return 0;
}

int CUbiquity_ringPrepareRead(
    struct CUbiquity_Ring *ring, int descriptor, void *buffer, uint32_t length, uint64_t mark) {
    struct io_uring_sqe *submission = prepare(ring);
    if (!submission) return -1;
    submission->opcode = IORING_OP_READ;
    submission->fd = descriptor;
    submission->addr = (uint64_t)(uintptr_t)buffer;
    submission->len = length;
    submission->user_data = mark;
    return 0;
}

int CUbiquity_ringSubmit(struct CUbiquity_Ring *ring, uint32_t completions) {
    unsigned flags = completions ? IORING_ENTER_GETEVENTS : 0;
    int descriptor = ring->descriptor;
    if (ring->registered >= 0) {
        descriptor = ring->registered;
        flags |= IORING_ENTER_REGISTERED_RING;
    }
    long count = syscall(SYS_io_uring_enter, descriptor, ring->prepared, completions, flags, NULL, 0);
    if (count > 0) ring->prepared -= (uint32_t)count;
    return count < 0 ? -1 : 0;
}

int CUbiquity_ringTake(struct CUbiquity_Ring *ring, uint64_t *mark, int32_t *result) {
    uint32_t head = *ring->completionHead;
    if (head == __atomic_load_n(ring->completionTail, __ATOMIC_ACQUIRE)) return 0;
    const struct io_uring_cqe *completion = (struct io_uring_cqe *)ring->completions + (head & ring->completionMask);
    *mark = completion->user_data;
    *result = completion->res;
    __atomic_store_n(ring->completionHead, head + 1, __ATOMIC_RELEASE);
    return 1;
}

int CUbiquity_ringHasCompletions(const struct CUbiquity_Ring *ring) {
    return *ring->completionHead != __atomic_load_n(ring->completionTail, __ATOMIC_ACQUIRE);
}

int CUbiquity_eventDescriptor(void) { return eventfd(0, EFD_CLOEXEC); }

int CUbiquity_cores(int thread, uint64_t *cores, size_t words) {
    return sched_getaffinity(thread, words * sizeof *cores, (cpu_set_t *)cores);
}

int CUbiquity_setCores(int thread, const uint64_t *cores, size_t words) {
    return sched_setaffinity(thread, words * sizeof *cores, (const cpu_set_t *)cores);
}

int CUbiquity_core(void) { return sched_getcpu(); }

int CUbiquity_setIdlePolicy(int thread, int isIdle) {
    const struct sched_param none = {.sched_priority = 0};
    return sched_setscheduler(thread, isIdle ? SCHED_IDLE : SCHED_OTHER, &none);
}

int CUbiquity_hasIdlePolicy(int thread) { return sched_getscheduler(thread) == SCHED_IDLE; }

int CUbiquity_keepDiskPriority(void) {
    // linux/ioprio.h, which the C library has no calls for.
    enum { whoProcess = 1, classShift = 13, classNone = 0, classBestEffort = 2, niceStep = 5 };
    long now = syscall(SYS_ioprio_get, whoProcess, 0);
    if (now < 0) return -1;
    if (now >> classShift != classNone) return 0;
    // A nice value may be -1, as a failure is; of the calling thread there is none.
    int nice = getpriority(PRIO_PROCESS, 0);
    return (int)syscall(SYS_ioprio_set, whoProcess, 0, classBestEffort << classShift | (nice + 20) / niceStep);
}

static void *changePolicy(void *result) {
    *(int *)result = CUbiquity_setIdlePolicy(0, 1) == 0 && CUbiquity_setIdlePolicy(0, 0) == 0;
    return NULL;
}

int CUbiquity_mayChangePolicy(void) {
    // A thread of its own: it may not get the usual priority back.
    pthread_t thread;
    int result = 0;
    if (pthread_create(&thread, NULL, changePolicy, &result) != 0) return 0;
    pthread_join(thread, NULL);
    return result;
}

int CUbiquity_threadNumber(void) { return gettid(); }

void *CUbiquity_reserve(size_t size) {
    const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *region = mmap(NULL, size, PROT_READ | PROT_WRITE, kind, -1, 0);
    return region == MAP_FAILED ? NULL : region;
}

int CUbiquity_giveBack(void *region, size_t size) { return madvise(region, size, MADV_DONTNEED); }

int CUbiquity_release(void *region, size_t size) { return munmap(region, size); }
