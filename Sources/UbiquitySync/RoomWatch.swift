/// When to look next at the room on the disk while a program writes. A value; pure.
struct RoomWatch: Equatable {
    /// Until the next look.
    private(set) var pause = Self.shortest
    private var free: Int64?

    /// Bytes that are to be free beyond the floor: a writer who took some since the last look takes them again before
    /// the next, and that may come later. At most as many as the floor has.
    func ahead(of free: Int64, floor: Int64) -> Int64 {
        min(max(0, (self.free ?? free) - free) * Self.looksAhead, floor)
    }

    /// - Parameters:
    ///   - free: bytes that were free on the disk.
    ///   - left: bytes that are free after room was made.
    ///   - took: how long it took to look, and to make room.
    func looked(free: Int64, left: Int64, took: Duration) -> RoomWatch {
        var next = self
        let urgent = Duration.nanoseconds(free / Self.bytesPerNanosecond / Self.looksUntilFull)
        // A file that is open and not written, as a database's, is not looked after as often.
        let wanted = free < self.free ?? 0 ? urgent : max(urgent, pause * 2)
        // What makes room is worth its time.
        let cost = left > free ? .zero : took * Self.share
        next.pause = min(max(wanted, Self.shortest, cost), Self.longest)
        next.free = left
        return next
    }

    /// No disk takes more.
    private static let bytesPerNanosecond: Int64 = 2
    private static let looksUntilFull: Int64 = 4
    private static let looksAhead: Int64 = 2
    /// Looking in vain takes at most a tenth of the time.
    private static let share = 9
    private static let shortest: Duration = .milliseconds(20)
    private static let longest: Duration = .seconds(1)
}
