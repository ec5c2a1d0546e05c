internal import UbiquityCore
internal import UbiquitySystem

/// Decides what programs may do while the disk is full. The reserve then serves operations that free space
/// (`IndexReserve`).
///
/// `ItemIndex` asks it before each operation that needs space.
final class IndexSpace: Sendable {
    /// Seconds between two checks: with plenty of free space, and while a program could use it up at once.
    private static let pauses = (plenty: 0.25, little: 0.01)
    private static let plenty: Int64 = 256 << 20

    /// The result of the last check.
    private struct Check {
        var allowance = IndexReserve.Allowance.all
        /// The result is valid until then.
        var until = Timestamp.zero
    }

    private let path: String?
    private let timekeeper: any Timekeeper
    /// Nil if no space is reserved.
    private let reserve = Lock<IndexReserve?>(nil)
    private let lastCheck = Lock(Check())

    init(path: String?, timekeeper: any Timekeeper) {
        self.path = path
        self.timekeeper = timekeeper
    }

    /// Reserves disk space from now on.
    func begin() {
        guard let path else { return }
        let reserve = IndexReserve(besideIndexAt: path)
        self.reserve.withLock { $0 = reserve }
        reserve.take()
    }

    /// Reserves missing space.
    func refill() { reserve.withLock { $0 }?.take() }

    /// Throws `.noSpace` if programs may not do that now.
    ///
    /// - Parameter use: `all` to create something, `changes` to change something.
    func require(for use: IndexReserve.Allowance) throws(UbiquityError) {
        guard let reserve = reserve.withLock({ $0 }) else { return }
        let now = timekeeper.now()
        let allowance = lastCheck.withLock { last in
            // Also checks again after the clock was set back.
            if now >= last.until || last.until > now.advanced(bySeconds: Self.pauses.plenty) {
                let (allowance, free) = reserve.allowance()
                let pause = free > Self.plenty ? Self.pauses.plenty : Self.pauses.little
                last = Check(allowance: allowance, until: now.advanced(bySeconds: pause))
            }
            return last.allowance
        }
        guard allowance < use else { return }
        throw UbiquityError(.noSpace, "the disk is full", at: path ?? "", remedy: "free some space on the disk")
    }
}
