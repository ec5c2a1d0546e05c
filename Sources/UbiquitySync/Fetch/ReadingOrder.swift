internal import UbiquityCore

/// Detects programs that open the placeholders of a folder in the order of its listing (`cp -r`, `grep -r`, `tar`, a
/// person who looks through pictures). Then the next files can be fetched while this one is read.
///
/// A value type: it gets the opened names, and returns how many of the following files to fetch.
struct ReadingOrder: Sendable {
    /// Opens in order before files are fetched ahead.
    static let beginning = 4
    /// Files fetched ahead, at first and at most.
    static let first = 4, most = SyncLimits.concurrentDownloads
    /// The longest time between two opens of one run, in nanoseconds.
    static let patience: Int64 = 2_000_000_000
    /// Folders in which runs are remembered.
    static let folders = 16

    private struct Run {
        /// The names that may be opened next.
        var upcoming: Set<ItemName>
        var at: Timestamp
        var length: Int
        var ahead: Int
    }
    private var runs: [ItemKey: Run] = [:]

    /// How many following names `opened` needs: those that it may want fetched, and some after them, one of which is
    /// the next to be opened.
    func span(in folder: ItemKey) -> Int { Self.next(after: runs[folder]?.ahead ?? 0) + Self.first }

    private static func next(after ahead: Int) -> Int { min(max(ahead * 2, first), most) }

    /// Records that a placeholder was opened.
    /// - Parameter upcoming: the names that follow it in the folder.
    /// - Returns: how many of them to fetch.
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
