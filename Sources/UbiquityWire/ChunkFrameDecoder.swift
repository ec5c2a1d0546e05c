package import UbiquityCore

/// Reads a stream of `ChunkFrame`s from pieces of any length.
///
/// It holds at most one unfinished frame: a chunk of the maximum length. It does not verify the contents against their
/// ids.
package struct ChunkFrameDecoder: Sendable {
    private enum State: Sendable {
        case header
        case content(ChunkID, length: Int)
        case failureLength
        case failure(length: Int)
        case failed(UbiquityError)
    }

    private var state = State.header
    private var pending = [UInt8]()

    package init() {}

    /// The chunks that these bytes complete.
    /// - Throws: `.invalid` if they are no frame. Nothing can be read afterwards.
    package mutating func push(_ bytes: [UInt8]) throws(UbiquityError) -> [Chunk] {
        var chunks = [Chunk]()
        var failure: UbiquityError?
        bytes.withUnsafeBytes { raw in
            do throws(UbiquityError) {
                chunks = try push(raw)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return chunks
    }

    /// The same, without a copy of the memory.
    package mutating func push(_ bytes: UnsafeRawBufferPointer) throws(UbiquityError) -> [Chunk] {
        var chunks = [Chunk]()
        var rest = bytes[...]
        while !rest.isEmpty {
            take(from: &rest)
            if pending.count == needed, let chunk = try advance() { chunks.append(chunk) }
        }
        return chunks
    }

    /// Call it at the end of the stream.
    /// - Throws: the failure that the sender sent, or `.offline` if the stream was cut off inside a frame.
    package func finish() throws(UbiquityError) {
        if case .failed(let error) = state { throw error }
        if case .header = state, pending.isEmpty { return }
        throw UbiquityError(.offline, "the stream of chunks was cut off")
    }

    /// The full length of the current part, in bytes.
    private var needed: Int {
        switch state {
        case .header: ChunkFrame.headerLength
        case .content(_, let length), .failure(let length): length
        case .failureLength: 4
        case .failed: 0
        }
    }

    private mutating func take(from rest: inout Slice<UnsafeRawBufferPointer>) {
        let count = min(needed - pending.count, rest.count)
        // Nothing may follow a failure frame. Later bytes are dropped, and `finish` throws the failure.
        guard count > 0 else { return rest = rest.suffix(0) }
        pending.append(contentsOf: UnsafeRawBufferPointer(rebasing: rest.prefix(count)))
        rest = rest.dropFirst(count)
    }

    /// Continues with the next part when this one is complete.
    private mutating func advance() throws(UbiquityError) -> Chunk? {
        let part = pending
        pending = []
        switch state {
        case .header: try readHeader(part)
        case .content(let id, _):
            state = .header
            return Chunk(id: id, bytes: part)
        case .failureLength:
            let length = Int(Self.number(part[...]))
            guard (1...ChunkFrame.maximumFailureLength).contains(length) else {
                throw .malformed("a stream's failure has \(length) bytes")
            }
            state = .failure(length: length)
        case .failure: state = .failed(try WireFailure(wire: part, as: .protobuf).error)
        case .failed: break
        }
        return nil
    }

    private mutating func readHeader(_ header: [UInt8]) throws(UbiquityError) {
        let length = Self.number(header.suffix(4))
        if length == ChunkFrame.failureMark { return state = .failureLength }
        guard let id = ChunkID(bytes: header.prefix(ChunkID.byteCount)) else {
            throw .malformed("a frame's header is too short")
        }
        try ChunkReference(id: id, length: Int(length)).check()
        state = .content(id, length: Int(length))
        pending.reserveCapacity(Int(length))
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt32 { bytes.reduce(0) { $0 << 8 | UInt32($1) } }
}
