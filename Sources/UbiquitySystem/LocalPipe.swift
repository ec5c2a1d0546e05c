import Glibc
import UbiquityCore

/// A pipe between two processes: the reader stays here, the writer is passed to another process.
package struct LocalPipe {
    package let reading: FileDescriptor
    package let writing: FileDescriptor

    package init() throws(Errno) {
        var ends: [Int32] = [-1, -1]
        _ = try check(pipe(&ends))
        reading = FileDescriptor(owning: ends[0])
        writing = FileDescriptor(owning: ends[1])
        for end in ends { _ = try check(fcntl(end, F_SETFD, FD_CLOEXEC)) }
    }
}

extension FileDescriptor {
    /// Waits for data, or for the other end to be closed; false after the given time. Blocks.
    package func waitUntilReadable(milliseconds: Int32) throws(Errno) -> Bool {
        var wanted = pollfd(fd: rawValue, events: Int16(POLLIN), revents: 0)
        return try retrying { poll(&wanted, 1, milliseconds) } > 0
    }
}
