internal import CFUSE
internal import Glibc
internal import UbiquitySystem

/// A thread that serves the requests of one core.
protocol RingServer: Sendable {
    /// The answer to the request in one of its entries stands there. Called on any thread, once for each request.
    func answered(_ entry: RingEntry)
}

/// Which requests are being served, by their numbers, so that an answer finds its way from whichever thread gives it.
final class RequestsUnderWay: Sendable {
    struct Place {
        var entry: RingEntry
        var server: any RingServer
    }
    private struct State {
        var places: [UInt64: Place] = [:]
        /// Requests whose interrupt came before they began; the oldest first.
        var interrupted: [UInt64] = []
    }
    /// Interrupts that are kept. Most of them came after the answer, and nobody asks for them again.
    private static let maximumInterrupts = 256

    private let state = Lock(State())

    /// - Returns: whether it was interrupted before.
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

    /// Takes an answer, as writev(2) to the device would.
    /// - Returns: how many bytes it has, or nil if no such request is under way here.
    func answer(_ vector: UnsafePointer<iovec>, count: Int) -> Int? {
        guard let request = Self.request(vector, count) else { return nil }
        // News to the kernel has no number.
        guard request != 0, let place = state.withLock({ $0.places.removeValue(forKey: request) }) else { return nil }
        place.entry.put(vector, count: count)
        place.server.answered(place.entry)
        return (0..<count).reduce(0) { $0 + vector[$1].iov_len }
    }

    /// Takes an interrupt that libfuse gives back (EAGAIN), since it does not know its request, or not yet. By the
    /// device the kernel would send it again; of the requests that came by a ring it does not know by then.
    /// - Returns: the request, if it has begun meanwhile: it is to be interrupted again. Otherwise it is kept.
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

    /// FUSE_INT_REQ_BIT: an interrupt has the number of its request and this.
    static let interruptBit: UInt64 = 1

    private static func request(_ vector: UnsafePointer<iovec>, _ count: Int) -> UInt64? {
        guard count > 0, vector[0].iov_len >= 16, let header = vector[0].iov_base else { return nil }
        return header.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
    }
}
