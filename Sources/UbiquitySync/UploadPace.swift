/// How much goes up in one request, and how many requests at a time: as much as the line takes in a few seconds, so
/// that a slow one is not given what it cannot answer for in time, and an interruption costs little. A value; pure.
struct UploadPace: Equatable {
    /// Bytes of chunks in a request; one chunk goes in any case.
    private(set) var bytes = Self.first

    /// Requests on their way at one time per file.
    var lanes: Int { bytes < Self.enoughForSeveral ? 1 : SyncLimits.uploadsInFlight }

    /// A request has been answered.
    mutating func took(_ duration: Duration, for sent: Int) {
        let seconds = max(duration / .seconds(1), 1e-6)
        // One that was smaller than it might have been says little of what the line can take, unless it was slow.
        guard sent * 2 >= bytes || seconds > Self.goal else { return }
        let wanted = min(Double(sent) / seconds * Self.goal, Double(bytes * 2))
        bytes = min(max(Int(wanted), Self.least), most)
    }

    /// A request has failed for the connection, perhaps because it took too long. Those that were under way when one
    /// failed tell nothing new.
    mutating func failed(begunAt start: Duration, now: Duration) {
        if let failedAt, start < failedAt { return }
        failedAt = now
        bytes = max(bytes / 4, Self.least)
    }

    /// A request of so many bytes was too large for what stands between: none is of that size again.
    mutating func refused(_ size: Int) {
        most = max(min(most, size / 2), Self.least)
        bytes = min(bytes, most)
    }

    /// Bytes of a request at most.
    private var most = SyncLimits.uploadBatchBytes
    /// By the machine's uptime.
    private var failedAt: Duration?

    /// Seconds that a request is to take at most.
    private static let goal = 4.0
    private static let first = 1 << 20
    private static let least = 64 << 10
    private static let enoughForSeveral = 1 << 20
}
