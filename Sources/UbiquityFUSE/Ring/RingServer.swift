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
    private let places = Lock([UInt64: Place]())

    func begin(_ request: UInt64, _ place: Place) { places.withLock { $0[request] = place } }

    /// Takes an answer, as writev(2) to the device would.
    /// - Returns: how many bytes it has, or nil if no such request is under way here.
    func answer(_ vector: UnsafePointer<iovec>, count: Int) -> Int? {
        guard count > 0, vector[0].iov_len >= 16, let header = vector[0].iov_base else { return nil }
        let request = header.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        // News to the kernel has no number.
        guard request != 0, let place = places.withLock({ $0.removeValue(forKey: request) }) else { return nil }
        place.entry.put(vector, count: count)
        place.server.answered(place.entry)
        return (0..<count).reduce(0) { $0 + vector[$1].iov_len }
    }
}
