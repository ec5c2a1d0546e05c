internal import UbiquityCore

/// Programs often open one placeholder of a folder after the other, in the order in which the folder lists them
/// (`cp -r`, `grep -r`, `tar`, someone who looks through pictures). Then the next ones can come while this one is read.
///
/// A value: it is told what is opened, and says how many of the following files are worth fetching.
struct ReadingOrder: Sendable {
    /// Opens in order before anything is fetched that nobody has asked for.
    static let beginning = 4
    /// Files fetched ahead, at first and at most.
    static let first = 4, most = SyncLimits.concurrentDownloads
    /// The longest time between two opens of one run.
    static let patience: Int64 = 2_000_000_000
    /// Folders in which runs are remembered.
    static let folders = 16

    private struct Run {
        /// What may be opened next.
        var upcoming: Set<ItemName>
        var at: Timestamp
        var length: Int
        var ahead: Int
    }
    private var runs: [ItemKey: Run] = [:]

    /// How many of the items that follow an opened one `opened` has to know: those that it may want fetched, and some
    /// behind them, of which one is the next that is heard of.
    func span(in folder: ItemKey) -> Int { Self.next(after: runs[folder]?.ahead ?? 0) + Self.first }

    private static func next(after ahead: Int) -> Int { min(max(ahead * 2, first), most) }

    /// A placeholder was opened.
    /// - Parameter upcoming: The names that follow it in the folder.
    /// - Returns: How many of them are to be fetched.
    mutating func opened(_ name: ItemName, in folder: ItemKey, upcoming: [ItemName], now: Timestamp) -> Int {
        var run = Run(upcoming: [], at: now, length: 1, ahead: 0)
        if let before = runs[folder], before.upcoming.contains(name), now.nanoseconds - before.at.nanoseconds
            <= Self.patience
        {
            run.length = before.length + 1
            if run.length >= Self.beginning { run.ahead = Self.next(after: before.ahead) }
        }
        run.upcoming = Set(upcoming.prefix(run.ahead + Self.first))
        runs[folder] = run
        if runs.count > Self.folders, let oldest = runs.min(by: { $0.value.at < $1.value.at }) {
            runs[oldest.key] = nil
        }
        return run.ahead
    }
}
