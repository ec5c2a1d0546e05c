/// Returns the result of a system call; throws `errno` if it is -1.
@inline(__always)
func check<I: FixedWidthInteger>(_ result: I) throws(Errno) -> I {
    if result == -1 { throw .last }
    return result
}

/// Does the same for an interruptible call, and repeats it after EINTR.
@inline(__always)
func retrying<I: FixedWidthInteger>(_ call: () -> I) throws(Errno) -> I {
    while true {
        let result = call()
        if result != -1 { return result }
        let error = Errno.last
        if error != .EINTR { throw error }
    }
}
