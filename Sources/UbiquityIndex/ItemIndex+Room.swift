internal import UbiquityCore
internal import UbiquitySystem

/// What was seen when the room for the index was looked at last.
struct RoomLook {
    var allowance = IndexReserve.Allowance.all
    /// It counts till then.
    var until = Timestamp.zero
}

// On a full disk the room that is kept for the index is for what makes room (`IndexReserve`).
extension ItemIndex {
    /// Seconds between two looks while there is plenty of room, and while a program could use up what there is at once.
    private static let pauses = (plenty: 0.25, little: 0.01)
    private static let plenty: Int64 = 256 << 20

    /// Throws `.noSpace` while programs may not do that.
    /// - Parameter use: `all` for what makes something new, `changes` for what changes something.
    func requireRoom(for use: IndexReserve.Allowance) throws(UbiquityError) {
        guard let reserve = reserve.withLock({ $0 }) else { return }
        let now = timekeeper.now()
        let allowance = roomLook.withLock { look in
            // Also after the clock was set back.
            if now >= look.until || look.until > now.advanced(bySeconds: Self.pauses.plenty) {
                let (allowance, free) = reserve.allowance()
                let pause = free > Self.plenty ? Self.pauses.plenty : Self.pauses.little
                look = RoomLook(allowance: allowance, until: now.advanced(bySeconds: pause))
            }
            return look.allowance
        }
        guard allowance < use else { return }
        throw UbiquityError(.noSpace, "the disk is full", at: path ?? "", remedy: "make room on the disk")
    }
}
