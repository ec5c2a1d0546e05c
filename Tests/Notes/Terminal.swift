import Glibc

/// Typed lines.
enum Typing {
    private final class Reader {
        let each: @Sendable (String?) -> Void
        init(_ each: @escaping @Sendable (String?) -> Void) { self.each = each }
    }

    /// Calls `each` with every line, and with nil at the end.
    static func start(_ each: @escaping @Sendable (String?) -> Void) {
        var thread = pthread_t()
        pthread_create(&thread, nil, read, Unmanaged.passRetained(Reader(each)).toOpaque())
        pthread_detach(thread)
    }

    private static let read: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { argument in
        guard let argument else { return nil }
        let reader = Unmanaged<Reader>.fromOpaque(argument).takeRetainedValue()
        while let line = readLine() { reader.each(line) }
        reader.each(nil)
        return nil
    }
}

/// Standard output, unbuffered.
enum Output {
    static func end(_ code: Int32) -> Never { exit(code) }
    static func write(_ bytes: UnsafeBufferPointer<UInt8>) -> Int { Glibc.write(1, bytes.baseAddress, bytes.count) }
}
