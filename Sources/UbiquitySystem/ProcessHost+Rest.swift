import CUbiquityShims

extension ProcessHost {
    /// The CPU time of all threads of this process.
    package static var computedTime: Duration { .nanoseconds(CUbiquity_computedTime()) }

    /// Returns freed memory to the kernel. Takes some milliseconds, during which other threads wait to allocate.
    package static func returnMemory() { CUbiquity_returnMemory() }
}
