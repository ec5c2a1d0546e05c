/// The size of upload requests and their number in flight: as much as the connection transfers in a few seconds. So a
/// slow connection can answer in time, and an interruption costs little. A value type, pure.
struct UploadPace: Equatable {
    /// Bytes of chunks in a request. A request has at least one chunk.
    private(set) var bytes = Self.first

    /// Requests in flight per file.
    var lanes: Int { bytes < Self.enoughForSeveral ? 1 : SyncLimits.uploadsInFlight }

    /// Records an answered request.
    mutating func took(_ duration: Duration, for sent: Int) {
        let seconds = max(duration / .seconds(1), 1e-6)
        // A request smaller than allowed tells little of the connection's capacity, unless it was slow.
        guard sent * 2 >= bytes || seconds > Self.goal else { return }
        let wanted = min(Double(sent) / seconds * Self.goal, Double(bytes * 2))
        bytes = min(max(Int(wanted), Self.least), most)
    }

    /// Records a request that failed with the connection, perhaps because it took too long. Requests that were in
    /// flight during an earlier failure are ignored.
    mutating func failed(begunAt start: Duration, now: Duration) {
        if let failedAt, start < failedAt { return }
        failedAt = now
        bytes = max(bytes / 4, Self.least)
    }

    /// Records that a proxy refused a request of this size. Later requests are smaller.
    mutating func refused(_ size: Int) {
        most = max(min(most, size / 2), Self.least)
        bytes = min(bytes, most)
    }

    /// The largest request, in bytes.
    private var most = SyncLimits.uploadBatchBytes
    /// In uptime of the machine.
    private var failedAt: Duration?

    /// The longest time that a request should take, in seconds.
    private static let goal = 4.0
    private static let first = 1 << 20
    private static let least = 64 << 10
    private static let enoughForSeveral = 1 << 20
}
