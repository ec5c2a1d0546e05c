import CUbiquityShims

extension ProcessHost {
    /// The time that all threads of this process have computed.
    package static var computedTime: Duration { .nanoseconds(CUbiquity_computedTime()) }

    /// Gives the kernel the memory back that was freed. Takes some milliseconds, for which others wait that allocate.
    package static func returnMemory() { CUbiquity_returnMemory() }
}
