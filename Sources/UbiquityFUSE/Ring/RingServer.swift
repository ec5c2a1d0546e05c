internal import CFUSE
internal import Glibc
internal import UbiquitySystem

/// A thread that serves the requests of one core.
protocol RingServer: Sendable {
    /// Reports that the answer to the request in one of its entries is stored there. Called on any thread, once per
    /// request.
    func answered(_ entry: RingEntry)
}

/// The requests in progress by their numbers, so that an answer from any thread finds its entry.
final class RequestsUnderWay: Sendable {
    struct Place {
        var entry: RingEntry
        var server: any RingServer
    }
    private struct State {
        var places: [UInt64: Place] = [:]
        /// Requests interrupted before they began; the oldest first.
        var interrupted: [UInt64] = []
    }
    /// Number of early interrupts kept. Most of them came after the answer and are never used.
    private static let maximumInterrupts = 256

    private let state = Lock(State())

    /// - Returns: whether the request was interrupted before.
    func begin(_ request: UInt64, _ place: Place) -> Bool {
        state.withLock { state in
            state.places[request] = place
            guard !state.interrupted.isEmpty, let position = state.interrupted.firstIndex(of: request) else {
                return false
            }
            state.interrupted.remove(at: position)
            return true
        }
    }

    /// Stores an answer, as writev(2) to the device would.
    /// - Returns: the answer's length in bytes; nil if no such request is in progress here.
    func answer(_ vector: UnsafePointer<iovec>, count: Int) -> Int? {
        guard let request = Self.request(vector, count) else { return nil }
        // Notifications to the kernel have no number.
        guard request != 0, let place = state.withLock({ $0.places.removeValue(forKey: request) }) else { return nil }
        place.entry.put(vector, count: count)
        place.server.answered(place.entry)
        return (0..<count).reduce(0) { $0 + vector[$1].iov_len }
    }

    /// Handles an interrupt that libfuse returns (EAGAIN) because it does not know the request, or not yet. Through the
    /// device the kernel would send it again; for requests from a ring it does not.
    /// - Returns: the request, if it has begun meanwhile: interrupt it again. Otherwise the interrupt is kept.
    func giveBack(_ vector: UnsafePointer<iovec>, count: Int) -> UInt64? {
        guard let number = Self.request(vector, count), number & Self.interruptBit != 0,
            vector[0].iov_base.loadUnaligned(fromByteOffset: 4, as: Int32.self) == -EAGAIN
        else { return nil }
        let request = number & ~Self.interruptBit
        return state.withLock { state in
            guard state.places[request] == nil else { return request }
            if state.interrupted.count == Self.maximumInterrupts { state.interrupted.removeFirst() }
            state.interrupted.append(request)
            return nil
        }
    }

    /// FUSE_INT_REQ_BIT: an interrupt has the number of its request plus this bit.
    static let interruptBit: UInt64 = 1

    private static func request(_ vector: UnsafePointer<iovec>, _ count: Int) -> UInt64? {
        guard count > 0, vector[0].iov_len >= 16, let header = vector[0].iov_base else { return nil }
        return header.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
    }
}
