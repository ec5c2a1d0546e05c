/// When to look next at the room on the disk while a program writes. A value; pure.
struct RoomWatch: Equatable {
    /// Until the next look.
    private(set) var pause = Self.shortest
    private var free: Int64 = 0

    /// - Parameters:
    ///   - free: bytes that were free on the disk.
    ///   - took: how long it took to look, and to make room.
    func looked(free: Int64, took: Duration) -> RoomWatch {
        var next = self
        let urgent = Duration.nanoseconds(free / Self.bytesPerNanosecond / Self.looksUntilFull)
        // A file that is open and not written, as a database's, is not looked after as often.
        let wanted = free < self.free ? urgent : max(urgent, pause * 2)
        next.pause = min(max(wanted, Self.shortest, took * Self.share), Self.longest)
        next.free = free
        return next
    }

    /// No disk takes more.
    private static let bytesPerNanosecond: Int64 = 2
    private static let looksUntilFull: Int64 = 4
    /// Looking takes at most a tenth of the time.
    private static let share = 9
    private static let shortest: Duration = .milliseconds(20)
    private static let longest: Duration = .seconds(1)
}
