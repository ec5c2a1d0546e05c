/// The result of a system call that says -1 for failure.
@inline(__always)
func check<I: FixedWidthInteger>(_ result: I) throws(Errno) -> I {
    if result == -1 { throw .last }
    return result
}

/// The same for a call that a signal may interrupt: it is made again then.
@inline(__always)
func retrying<I: FixedWidthInteger>(_ call: () -> I) throws(Errno) -> I {
    while true {
        let result = call()
        if result != -1 { return result }
        let error = Errno.last
        if error != .EINTR { throw error }
    }
}
