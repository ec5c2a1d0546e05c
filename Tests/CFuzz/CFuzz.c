#include "CFuzz.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// The kernel delivers a crash's signal to the crashing thread.
static _Thread_local const char *currentTarget;
static _Thread_local uint64_t currentSeed, currentExecution;
static _Thread_local char *alternateStack;

// Any thread may get the timeout's signal; only one runs then.
static const char *volatile watchedTarget;
static volatile uint64_t watchedSeed, watchedExecution;

static size_t append(char *text, size_t at, const char *part) {
    size_t length = strlen(part);
    memcpy(text + at, part, length);
    return at + length;
}

static size_t appendNumber(char *text, size_t at, uint64_t number) {
    char digits[24];
    size_t count = 0;
    do digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    while (count > 0) text[at++] = digits[--count];
    return at;
}

static void report(const char *what, const char *target, uint64_t seed, uint64_t execution) {
    char text[1024];
    size_t at = append(text, 0, "fuzz: ");
    at = append(text, at, what);
    at = append(text, at, "; repeat it: scripts/fuzz ");
    at = append(text, at, target);
    at = append(text, at, " --seed ");
    at = appendNumber(text, at, seed);
    at = append(text, at, " --from ");
    at = appendNumber(text, at, execution);
    at = append(text, at, " --executions 1\n");
    if (write(STDERR_FILENO, text, at) < 0) return;
}

static void crashed(int number) {
    if (currentTarget) report("the execution crashed", currentTarget, currentSeed, currentExecution);
    signal(number, SIG_DFL);
    raise(number);
}

static void timedOut(int number) {
    (void)number;
    if (!watchedTarget) return;
    report("the execution does not end", watchedTarget, watchedSeed, watchedExecution);
    _exit(3);
}

void CFuzz_reportCrashes(void) {
    if (!alternateStack) {
        size_t size = 64 * 1024;
        alternateStack = malloc(size);
        if (alternateStack) {
            stack_t stack = {.ss_sp = alternateStack, .ss_size = size};
            sigaltstack(&stack, NULL);
        }
    }
    static const int numbers[] = {SIGILL, SIGTRAP, SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_ONSTACK | SA_NODEFER};
        sigaction(numbers[i], &action, NULL);
    }
}

void CFuzz_begin(const char *target, uint64_t seed) {
    currentTarget = target;
    currentSeed = seed;
}

void CFuzz_execute(uint64_t number) { currentExecution = number; }

void CFuzz_end(void) { currentTarget = NULL; }

void CFuzz_limitTime(unsigned seconds) {
    watchedTarget = seconds > 0 ? currentTarget : NULL;
    watchedSeed = currentSeed;
    watchedExecution = currentExecution;
    signal(SIGALRM, timedOut);
    alarm(seconds);
}

size_t CFuzz_allocatedBytes(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

void CFuzz_limitMemory(size_t bytes) {
    struct rlimit limit = {.rlim_cur = bytes, .rlim_max = bytes};
    setrlimit(RLIMIT_AS, &limit);
}
