// Reports of fuzzing runs that crash or do not end.

#pragma once
#include <stddef.h>
#include <stdint.h>

/// From now on a crash prints what the crashing thread executes. Gives this thread a stack for that, so that a stack
/// overflow is reported too. May be called more than once.
void CFuzz_reportCrashes(void);

/// Notes this thread's target, seed and execution. The name must live on.
void CFuzz_begin(const char *target, uint64_t seed);
void CFuzz_execute(uint64_t number);
void CFuzz_end(void);

/// If this thread is still at the same execution after so many seconds, it prints that and ends the process. 0: no
/// limit.
void CFuzz_limitTime(unsigned seconds);

/// Bytes that are allocated in this process.
size_t CFuzz_allocatedBytes(void);

/// Allocations fail when the process has more than so many bytes of address space.
void CFuzz_limitMemory(size_t bytes);
