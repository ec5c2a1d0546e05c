import Glibc

// Reading and writing. Calls with an offset do not move the file's position and may run on many threads at once.
extension FileDescriptor {
    /// Fills `buffer` from `offset` on. Returns the bytes read, fewer than the buffer's size only at the end of the
    /// file.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(Errno) -> Int {
        var done = 0
        while done < buffer.count {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[done...])
            let count = try retrying { pread(rawValue, rest.baseAddress, rest.count, off_t(offset) + off_t(done)) }
            if count == 0 { break }
            done += count
        }
        return done
    }

    /// Reads at most `count` bytes from `offset` on; fewer only at the end of the file.
    package func read(count: Int, at offset: Int64) throws(Errno) -> [UInt8] {
        let result = [UInt8].reading(count) { buffer throws(Errno) in try read(into: buffer, at: offset) }
        return try result.get()
    }

    /// Makes one read(2) at the file's position: any number of bytes, 0 at the end.
    package func readSome(into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
        try retrying { Glibc.read(rawValue, buffer.baseAddress, buffer.count) }
    }

    /// Reads at most `count` bytes with one read(2) at the file's position; none at the end.
    package func readSome(count: Int) throws(Errno) -> [UInt8] {
        let result = [UInt8].reading(count) { buffer throws(Errno) in try readSome(into: buffer) }
        return try result.get()
    }

    /// Writes all of `buffer` at `offset`.
    package func write(_ buffer: UnsafeRawBufferPointer, at offset: Int64) throws(Errno) {
        var done = 0
        while done < buffer.count {
            let rest = UnsafeRawBufferPointer(rebasing: buffer[done...])
            done += try retrying { pwrite(rawValue, rest.baseAddress, rest.count, off_t(offset) + off_t(done)) }
        }
    }

    package func write(_ bytes: [UInt8], at offset: Int64) throws(Errno) {
        try bytes.withUnsafeBytes { buffer in Result { () throws(Errno) in try write(buffer, at: offset) } }.get()
    }

    package func write(_ bytes: ArraySlice<UInt8>, at offset: Int64) throws(Errno) {
        try bytes.withUnsafeBytes { buffer in Result { () throws(Errno) in try write(buffer, at: offset) } }.get()
    }

    /// Writes all of `bytes` at the file's position (at its end, if it was opened to append).
    package func write(_ bytes: [UInt8]) throws(Errno) {
        try bytes.withUnsafeBytes { buffer in
            Result { () throws(Errno) in
                var done = 0
                while done < buffer.count {
                    let rest = UnsafeRawBufferPointer(rebasing: buffer[done...])
                    done += try retrying { Glibc.write(rawValue, rest.baseAddress, rest.count) }
                }
            }
        }.get()
    }
}

extension [UInt8] {
    /// Makes an array from what `fill` writes into a buffer of `count` bytes.
    fileprivate static func reading(
        _ count: Int, _ fill: (UnsafeMutableRawBufferPointer) throws(Errno) -> Int
    ) -> Result<[UInt8], Errno> {
        var failure: Errno?
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            do throws(Errno) { initialized = try fill(UnsafeMutableRawBufferPointer(buffer)) } catch { failure = error }
        }
        if let failure { return .failure(failure) }
        return .success(bytes)
    }
}
