// Reports of fuzzing runs that crash or do not end.

#pragma once
#include <stddef.h>
#include <stdint.h>

/// From now on a crash prints the crashing thread's execution. Gives this thread a signal stack, so that a stack
/// overflow is reported too. May be called more than once.
void CFuzz_reportCrashes(void);

/// Records this thread's target, seed and execution. The name must stay allocated.
void CFuzz_begin(const char *target, uint64_t seed);
void CFuzz_execute(uint64_t number);
void CFuzz_end(void);

/// If this thread is still at the same execution after so many seconds, prints the execution and ends the process.
/// 0: no limit.
void CFuzz_limitTime(unsigned seconds);

/// Bytes that are allocated in this process.
size_t CFuzz_allocatedBytes(void);

/// Makes allocations fail when the process has more than so many bytes of address space.
void CFuzz_limitMemory(size_t bytes);
