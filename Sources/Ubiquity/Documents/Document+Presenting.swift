public import FoundationEssentials
import UbiquitySystem

// The document's answers to other programs. `DocumentPresence` has their state.
extension Document {
    public var presentedItemURL: URL { fileURL }

    func setEditing(_ isEnabled: Bool) {
        guard documentState.contains(.editingDisabled) == isEnabled else { return }
        // Editing stays disabled in a document of a newer format.
        guard !isEnabled || disk.access == .readWrite else { return }
        if isEnabled {
            documentState.remove(.editingDisabled)
            enableEditing()
        } else {
            documentState.insert(.editingDisabled)
            disableEditing()
        }
    }

    // MARK: Requests

    public func relinquishPresentedItemToReader() async throws { await saves.wait() }

    public func relinquishPresentedItemToWriter() async throws {
        await saves.wait()
        guard !documentState.contains(.closed) else { return }
        presence.relinquishToWriter(self)
    }

    public func reacquirePresentedItem() async { presence.reacquire(self) }

    public func savePresentedItemChanges() async throws { try await autosave() }

    public func accommodatePresentedItemDeletion() async throws { try await accommodateDeletion(canSave: true) }

    /// Saves before the file is deleted, so that no typed change is lost with it. A change saved now wins over a
    /// deletion by another device. The outcome of other deletions is checked when they are over.
    ///
    /// - Parameter canSave: False if nothing can be written until this returns.
    func accommodateDeletion(canSave: Bool) async throws {
        guard !documentState.contains(.closed) else { return }
        let hadChanges = hasUnsavedChanges
        // A failed save reports itself and cancels the deletion.
        if canSave { try await autosave() }
        presence.deletionAnnounced(hadChanges: hadChanges)
    }

    // MARK: Notifications

    public func presentedItemDidMove(to url: URL) async {
        fileURL = url
        fileDidMove(to: url)
        await presence.follow(self)
    }

    public func presentedItemDidChange() async { presence.changeAnnounced(self) }
    public func presentedSubitemDidChange(at url: URL) async { presence.changeAnnounced(self) }
    public func presentedSubitem(at oldURL: URL, didMoveTo url: URL) async { presence.changeAnnounced(self) }

    public func presentedItemDidGainVersion(_ identifier: String?, isConflict: Bool) async {
        if isConflict { await lookForConflicts() }
    }

    public func presentedItemDidResolveConflictVersion(_ identifier: String?) async { await lookForConflicts() }

    /// Updates `.inConflict` from the file's versions.
    public func lookForConflicts() async {
        // While versions cannot be listed, the last known state stays.
        guard let conflicts = try? await FileVersion.unresolvedConflictVersionsOfItem(at: fileURL) else { return }
        if conflicts.isEmpty { documentState.remove(.inConflict) } else { documentState.insert(.inConflict) }
    }

    /// The user has signed out or the mount has ended, so nothing can be saved. The document keeps unsaved changes in
    /// memory until the same container of the same account is mounted again. If the account has changed, a document
    /// without unsaved changes closes.
    public func presentationDidEnd() async {
        guard !documentState.contains(.closed) else { return }
        await presence.mountEnded(self)
    }
}
