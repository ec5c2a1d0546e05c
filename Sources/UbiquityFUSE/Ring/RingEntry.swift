internal import CFUSE
internal import CUbiquityShims
internal import Glibc
internal import Synchronization

/// A buffer for one request of the kernel and then its answer, registered with the queue of one core.
///
/// The kernel owns it from registration or answer until a request arrives. After that the thread that serves the
/// request owns it. So it needs no lock.
final class RingEntry: @unchecked Sendable {
    /// Space the kernel requires: one request or answer of the largest size.
    private static let payloadSize = Int(Handshake.maximumRequest)
    /// The header comes before the payload, with space to assemble the parts of a request as libfuse expects them.
    private static let front = 4096
    private static let vectorOffset = 512
    private static let requestHeader = 40, answerHeader = 16
    private static let largestOperation = 128

    /// The core whose requests are placed here.
    let queue: UInt16
    /// Its number among the entries of its thread.
    let number: Int
    /// Whether its request is not answered yet. Used by its server's thread only.
    var isTaken = false
    private let base: UnsafeMutableRawPointer

    /// Nil if no address space is left.
    init?(queue: UInt16, number: Int) {
        guard let base = CUbiquity_reserve(Self.front + Self.payloadSize) else { return nil }
        self.queue = queue
        self.number = number
        self.base = base
        let parts = (base + Self.vectorOffset).bindMemory(to: iovec.self, capacity: 2)
        parts[0] = iovec(iov_base: base, iov_len: MemoryLayout<CUbiquity_RingHeader>.size)
        parts[1] = iovec(iov_base: base + Self.front, iov_len: Self.payloadSize)
    }

    deinit { CUbiquity_release(base, Self.front + Self.payloadSize) }

    private var header: UnsafeMutablePointer<CUbiquity_RingHeader> {
        base.assumingMemoryBound(to: CUbiquity_RingHeader.self)
    }
    private var payload: UnsafeMutableRawPointer { base + Self.front }

    /// The vector that tells the kernel where header and payload are.
    var vector: UnsafeRawPointer { UnsafeRawPointer(base + Self.vectorOffset) }
    var commitID: UInt64 { header.pointee.commitID }
    /// The kind of request, as in linux/fuse.h.
    var opcode: UInt32 { base.loadUnaligned(fromByteOffset: 4, as: UInt32.self) }
    /// The request's number, which its answer repeats.
    var request: UInt64 { base.loadUnaligned(fromByteOffset: 8, as: UInt64.self) }

    /// The inode that the request concerns, or the folder of the name that it concerns.
    var node: UInt64 { base.loadUnaligned(fromByteOffset: 16, as: UInt64.self) }

    /// The request as read from the device: header, operation and payload in one piece. Nil if the lengths in it
    /// contradict each other.
    func message() -> UnsafeMutableRawBufferPointer? {
        let length = Int(base.loadUnaligned(as: UInt32.self))
        let rest = Int(header.pointee.payloadSize)
        let operation = length - rest - Self.requestHeader
        guard rest <= Self.payloadSize, operation >= 0, operation <= Self.largestOperation else { return nil }
        let start = payload - operation - Self.requestHeader
        start.copyMemory(from: base, byteCount: Self.requestHeader)
        (payload - operation).copyMemory(from: base + 128, byteCount: operation)
        return UnsafeMutableRawBufferPointer(start: start, count: length)
    }

    /// Stores the answer: a header and its payload, as they would be written to the device.
    func put(_ answer: UnsafePointer<iovec>, count: Int) {
        base.copyMemory(from: answer[0].iov_base, byteCount: Self.answerHeader)
        var length = 0
        for part in UnsafeBufferPointer(start: answer, count: count).dropFirst() {
            guard let bytes = part.iov_base, part.iov_len > 0 else { continue }
            guard length + part.iov_len <= Self.payloadSize else { return put(error: EIO) }
            (payload + length).copyMemory(from: bytes, byteCount: part.iov_len)
            length += part.iov_len
        }
        header.pointee.payloadSize = UInt32(length)
    }

    /// Returns the memory of a large answer to the system. Call it only while the entry holds no request.
    func giveBack() {
        guard Int(header.pointee.payloadSize) > Self.keptSize else { return }
        _ = CUbiquity_giveBack(payload + Self.keptSize, Self.payloadSize - Self.keptSize)
    }

    private static let keptSize = 64 * 1024

    /// Stores an error as the answer. The request's number is at the offset where the answer needs it.
    func put(error: Int32) {
        base.storeBytes(of: UInt32(Self.answerHeader), as: UInt32.self)
        base.storeBytes(of: -error, toByteOffset: 4, as: Int32.self)
        header.pointee.payloadSize = 0
    }
}
