internal import UbiquityCore
internal import UbiquitySystem

/// The result of the last check of the index's reserved space.
struct RoomLook {
    var allowance = IndexReserve.Allowance.all
    /// The result is valid until then.
    var until = Timestamp.zero
}

// On a full disk the index's reserved space serves operations that free space (`IndexReserve`).
extension ItemIndex {
    /// Seconds between two checks: with plenty of free space, and while a program could use it up at once.
    private static let pauses = (plenty: 0.25, little: 0.01)
    private static let plenty: Int64 = 256 << 20

    /// Throws `.noSpace` if programs may not do that now.
    ///
    /// - Parameter use: `all` to create something, `changes` to change something.
    func requireRoom(for use: IndexReserve.Allowance) throws(UbiquityError) {
        guard let reserve = reserve.withLock({ $0 }) else { return }
        let now = timekeeper.now()
        let allowance = roomLook.withLock { look in
            // Also checks again after the clock was set back.
            if now >= look.until || look.until > now.advanced(bySeconds: Self.pauses.plenty) {
                let (allowance, free) = reserve.allowance()
                let pause = free > Self.plenty ? Self.pauses.plenty : Self.pauses.little
                look = RoomLook(allowance: allowance, until: now.advanced(bySeconds: pause))
            }
            return look.allowance
        }
        guard allowance < use else { return }
        throw UbiquityError(.noSpace, "the disk is full", at: path ?? "", remedy: "free some space on the disk")
    }
}
