import UbiquityCore

/// A path or a name as the kernel takes it: bytes that end with a zero.
///
/// `String` is for this program's own paths (the state folder), bytes are for users' names: Linux knows only bytes.
package protocol CPath {
    /// Calls `body` with the zero-terminated bytes. Throws EINVAL if there is a zero among them.
    func withCPath<R>(_ body: (UnsafePointer<CChar>) throws(Errno) -> R) throws(Errno) -> R
}

extension String: CPath {
    package func withCPath<R>(_ body: (UnsafePointer<CChar>) throws(Errno) -> R) throws(Errno) -> R {
        guard !utf8.contains(0) else { throw .EINVAL }
        return try withCString { text -> Result<R, Errno> in Result { () throws(Errno) in try body(text) } }.get()
    }
}

extension [UInt8]: CPath {
    package func withCPath<R>(_ body: (UnsafePointer<CChar>) throws(Errno) -> R) throws(Errno) -> R {
        guard !contains(0) else { throw .EINVAL }
        return try withUnsafeTemporaryAllocation(of: CChar.self, capacity: count + 1) { text -> Result<R, Errno> in
            guard let start = text.baseAddress else { return .failure(.ENOMEM) }
            for (position, byte) in enumerated() { text[position] = CChar(bitPattern: byte) }
            text[count] = 0
            return Result { () throws(Errno) in try body(start) }
        }.get()
    }
}

extension ItemName: CPath {
    package func withCPath<R>(_ body: (UnsafePointer<CChar>) throws(Errno) -> R) throws(Errno) -> R {
        try bytes.withCPath(body)
    }
}
