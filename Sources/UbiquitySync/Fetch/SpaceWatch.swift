/// Schedules the checks of the disk space while a program writes. A value type, pure.
struct SpaceWatch: Equatable {
    /// The time until the next check.
    private(set) var pause = Self.shortest
    private var free: Int64?

    /// Bytes to keep free beyond the floor, at most the floor itself. A writer that used some since the last check uses
    /// as many again before the next, which may be late.
    func ahead(of free: Int64, floor: Int64) -> Int64 {
        min(max(0, (self.free ?? free) - free) * Self.looksAhead, floor)
    }

    /// - Parameters:
    ///   - free: bytes that were free on the disk.
    ///   - left: bytes that are free after the eviction.
    ///   - took: how long the check and the eviction took.
    func looked(free: Int64, left: Int64, took: Duration) -> SpaceWatch {
        var next = self
        let urgent = Duration.nanoseconds(free / Self.bytesPerNanosecond / Self.looksUntilFull)
        // A file that is open but not written, such as a database's, needs fewer checks.
        let wanted = free < self.free ?? 0 ? urgent : max(urgent, pause * 2)
        // An eviction that freed space was worth its time.
        let cost = left > free ? .zero : took * Self.share
        next.pause = min(max(wanted, Self.shortest, cost), Self.longest)
        next.free = left
        return next
    }

    /// No disk writes faster.
    private static let bytesPerNanosecond: Int64 = 2
    private static let looksUntilFull: Int64 = 4
    private static let looksAhead: Int64 = 2
    /// Checks that free nothing take at most a tenth of the time.
    private static let share = 9
    private static let shortest: Duration = .milliseconds(20)
    private static let longest: Duration = .seconds(1)
}
