public import FoundationEssentials
import UbiquitySystem

// The document as a presenter.
extension Document {
    /// Interval between checks whether the mount is back.
    private static let returnInterval: Duration = .seconds(1)

    /// Pauses before each check for an announced change.
    private static let looks: [Duration] = [0, 20, 100, 500, 1000].map { .milliseconds($0) }

    /// Registers the presenter. A document outside of all containers is not coordinated.
    func present() async throws {
        guard !isPresenting, let place = try await DocumentDisk.container(of: fileURL) else { return }
        isPresenting = true
        container = place
        identity = await DocumentDisk.identity(of: fileURL)
        do { try await FileCoordinator.addFilePresenter(self) } catch {
            isPresenting = false
            throw error
        }
    }

    func stopPresenting() async {
        guard isPresenting else { return }
        isPresenting = false
        await FileCoordinator.removeFilePresenter(self)
    }

    func setEditing(_ isEnabled: Bool) {
        guard documentState.contains(.editingDisabled) == isEnabled else { return }
        if isEnabled {
            documentState.remove(.editingDisabled)
            enableEditing()
        } else {
            documentState.insert(.editingDisabled)
            disableEditing()
        }
    }

    // MARK: Requests

    public func relinquishPresentedItemToReader() async throws { await waitForSave() }

    public func relinquishPresentedItemToWriter() async throws {
        await waitForSave()
        guard !documentState.contains(.closed) else { return }
        isRelinquishedToWriter = true
        setEditing(false)
    }

    public func reacquirePresentedItem() async {
        isRelinquishedToWriter = false
        if !documentState.contains(.closed) { setEditing(true) }
        let hasChanged = hasChangedMeanwhile || awaitsDeletion
        hasChangedMeanwhile = false
        if hasChanged { noteChange() }
    }

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
        awaitsDeletion = true
        if hadChanges { deletionTakesChanges = true }
    }

    /// The file is gone. If unsaved changes may be lost with it, the document stays open until they are saved
    /// somewhere.
    private func noteDeletion() async {
        guard deletionTakesChanges || hasUnsavedChanges else { return await finish() }
        (awaitsDeletion, deletionTakesChanges) = (false, false)
        isDeleted = true
        await stopPresenting()
        changes.noteLost()
        documentState.insert(.savingError)
        let failure = UbiquitousFileError(
            .fileNoSuchFile, "the document was deleted while it had unsaved changes: \(fileURL.path)")
        guard await report(failure) else { return scheduleAutosave() }
        // A failed save has reported itself.
        try? await save(to: fileURL, for: .forCreating)
    }

    // MARK: Notifications

    public func presentedItemDidMove(to url: URL) async {
        fileURL = url
        fileDidMove(to: url)
    }

    public func presentedItemDidChange() async { noteChange() }
    public func presentedSubitemDidChange(at url: URL) async { noteChange() }
    public func presentedSubitem(at oldURL: URL, didMoveTo url: URL) async { noteChange() }

    /// Starts one task that checks for changes. It runs apart, so the presenter can answer requests meanwhile. While
    /// another program has the document, the check is postponed until that program is done.
    private func noteChange() {
        guard !documentState.contains(.closed) else { return }
        guard !isRelinquishedToWriter else { return hasChangedMeanwhile = true }
        hasMoreChanges = true
        guard changeLook == nil else { return }
        changeLook = Task {
            while hasMoreChanges, !documentState.contains(.closed) {
                hasMoreChanges = false
                await takeInChanges()
            }
            changeLook = nil
        }
    }

    /// Checks once for a change between reading and presenting: a program that does not coordinate announces none.
    func takeInUntoldChange() async { await takeInChanges(looks: Self.looks.prefix(1)) }

    private func takeInChanges(looks: ArraySlice<Duration> = Document.looks[...]) async {
        guard !documentState.contains(.closed) else { return }
        await waitForSave()
        let differs = await differsFromDisk(looks)
        guard !documentState.contains(.closed) else { return }
        // Another program has asked for the document again; the check runs afterwards.
        guard !isRelinquishedToWriter else { return hasChangedMeanwhile = true }
        if awaitsDeletion {
            if differs, await isGone() { return await noteDeletion() }
            (awaitsDeletion, deletionTakesChanges) = (false, false)
        }
        guard differs, !hasUnsavedChanges, !isDeleted else { return }
        // A failed read has reported itself.
        try? await revertIfUnchanged()
    }

    private func isGone() async -> Bool {
        // The next save reports a place that cannot be read.
        do { return try await DocumentDisk.stamp(of: fileURL) == nil } catch { return false }
    }

    /// Compares the file with the state known so far. A message can arrive shortly before the kernel drops its cached
    /// attributes, so the check is repeated with growing pauses. A message about a change this document already knows
    /// costs all of them.
    private func differsFromDisk(_ looks: ArraySlice<Duration>) async -> Bool {
        for pause in looks {
            guard (try? await Sleepers.shared.sleep(for: pause)) != nil else { return false }
            // The next save reports a place that cannot be read.
            do { if try await DocumentDisk.stamp(of: fileURL) != known { return true } } catch { return false }
        }
        return false
    }

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

    // MARK: The mount ends and returns

    /// The user has signed out or the mount has ended, so nothing can be saved. The document keeps unsaved changes in
    /// memory until the same container of the same account is mounted again. If the account has changed, a document
    /// without unsaved changes closes.
    public func presentationDidEnd() async {
        guard !documentState.contains(.closed) else { return }
        isPresenting = false
        isRelinquishedToWriter = false
        setEditing(false)
        if case .some(let now) = await DocumentDisk.identity(of: fileURL), .some(now) != identity {
            guard !documentState.contains(.closed) else { return }
            accountDidLeave()
            guard hasUnsavedChanges else { return await finish() }
        }
        await report(
            UbiquitousFileError(
                .ubiquitousFileUbiquityServerNotAvailable,
                "the document's container is no longer mounted: \(fileURL.path)"))
        returnTask = Task { [weak self] in
            while (try? await Sleepers.shared.sleep(for: Self.returnInterval)) != nil {
                guard let self, await !self.hasReturned() else { return }
            }
        }
    }

    private func hasReturned() async -> Bool {
        // A mount that is starting cannot be asked yet; the next check finds it.
        guard let now = try? await DocumentDisk.container(of: fileURL), now == container,
            await DocumentDisk.identity(of: fileURL) == identity,
            (try? await FileCoordinator(filePresenter: self).coordinate(
                readingItemAt: fileURL, options: .withoutChanges, byAccessor: { _ in try await present() })) != nil
        else { return false }
        setEditing(true)
        lastError = nil
        await takeInChanges()
        await lookForConflicts()
        if hasUnsavedChanges { try? await autosave() }
        return true
    }
}
