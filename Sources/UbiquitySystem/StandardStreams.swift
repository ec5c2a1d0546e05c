import Glibc
import UbiquityCore

/// The three standard descriptors of a process.
package enum StandardStreams {
    /// Redirects standard output and error to `file`.
    package static func redirectOutput(to file: FileDescriptor) throws(Errno) {
        for stream: Int32 in [1, 2] { _ = try retrying { dup2(file.rawValue, stream) } }
    }
}

extension StandardStreams {
    /// Reads standard input up to its first newline, its end or the limit.
    package static func readLine(limit: Int) throws(Errno) -> [UInt8] {
        var line = [UInt8]()
        var byte: UInt8 = 0
        while line.count < limit {
            let count = try retrying { read(0, &byte, 1) }
            if count == 0 || byte == UInt8(ascii: "\n") { break }
            line.append(byte)
        }
        return line
    }

    /// Reads standard input to its end, or one byte more than the limit.
    package static func readAll(limit: Int) throws(Errno) -> [UInt8] {
        var bytes = [UInt8](), buffer = [UInt8](repeating: 0, count: 65_536)
        while bytes.count <= limit {
            let count = try retrying { read(0, &buffer, buffer.count) }
            if count == 0 { break }
            bytes += buffer[..<count]
        }
        return bytes
    }
}
