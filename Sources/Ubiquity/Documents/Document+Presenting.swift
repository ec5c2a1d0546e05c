public import FoundationEssentials
import UbiquitySystem

// What the document is asked and told as a presenter.
extension Document {
    /// Between looks for a mount that has gone.
    private static let returnInterval: Duration = .seconds(1)

    /// Before each look for a change that was told.
    private static let looks: [Duration] = [0, 20, 100, 500, 1000].map { .milliseconds($0) }

    /// A document outside of all containers is coordinated with nobody.
    func present() async throws {
        guard !isPresenting, let place = try await DocumentDisk.container(of: fileURL) else { return }
        isPresenting = true
        container = place
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

    // MARK: Asked

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

    /// Nothing that was typed goes with the file. What is saved now wins over another device's deletion; of others'
    /// deletions it is looked at when they are over.
    /// - Parameter canSave: false if nothing can be written until this returns.
    func accommodateDeletion(canSave: Bool) async throws {
        guard !documentState.contains(.closed) else { return }
        let hadChanges = hasUnsavedChanges
        // What fails has been told by it, and calls off the deletion.
        if canSave { try await autosave() }
        awaitsDeletion = true
        if hadChanges { deletionTakesChanges = true }
    }

    /// Its file is gone. What it had to save may be gone with it: it stays open with that until it is saved somewhere.
    private func noteDeletion() async {
        guard deletionTakesChanges || hasUnsavedChanges else { return await finish() }
        (awaitsDeletion, deletionTakesChanges) = (false, false)
        isDeleted = true
        await stopPresenting()
        changes.noteLost()
        documentState.insert(.savingError)
        let failure = UbiquitousFileError(
            .fileNoSuchFile, "it was deleted with changes that had not been saved: \(fileURL.path)")
        guard await report(failure) else { return scheduleAutosave() }
        // What fails has been told by it.
        try? await save(to: fileURL, for: .forCreating)
    }

    // MARK: Told

    public func presentedItemDidMove(to url: URL) async {
        fileURL = url
        fileDidMove(to: url)
    }

    public func presentedItemDidChange() async { noteChange() }
    public func presentedSubitemDidChange(at url: URL) async { noteChange() }
    public func presentedSubitem(at oldURL: URL, didMoveTo url: URL) async { noteChange() }

    /// What changes while another has the document is looked at when that one is done. The look is a task of its own,
    /// so that questions are answered meanwhile, and one for all that is told until it ends.
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

    /// What a program that does not coordinate wrote between the reading and the presenting, nobody tells of: one look
    /// shows it.
    func takeInUntoldChange() async { await takeInChanges(looks: Self.looks.prefix(1)) }

    private func takeInChanges(looks: ArraySlice<Duration> = Document.looks[...]) async {
        guard !documentState.contains(.closed) else { return }
        await waitForSave()
        let differs = await differsFromDisk(looks)
        guard !documentState.contains(.closed) else { return }
        // Asked again in the meantime: it is looked at afterwards.
        guard !isRelinquishedToWriter else { return hasChangedMeanwhile = true }
        if awaitsDeletion {
            if differs, await isGone() { return await noteDeletion() }
            (awaitsDeletion, deletionTakesChanges) = (false, false)
        }
        guard differs, !hasUnsavedChanges, !isDeleted else { return }
        // What fails has been told by it.
        try? await revertIfUnchanged()
    }

    private func isGone() async -> Bool {
        // A place that cannot be looked at is told of by the next save.
        do { return try await DocumentDisk.stamp(of: fileURL) == nil } catch { return false }
    }

    /// The message may come a moment before the kernel has forgotten what it knew of the file: then one look more, or
    /// some, show the change. A message about what this document has seen already costs these looks.
    private func differsFromDisk(_ looks: ArraySlice<Duration>) async -> Bool {
        for pause in looks {
            guard (try? await Sleepers.shared.sleep(for: pause)) != nil else { return false }
            // A place that cannot be looked at is told of by the next save.
            do { if try await DocumentDisk.stamp(of: fileURL) != known { return true } } catch { return false }
        }
        return false
    }

    public func presentedItemDidGainVersion(_ identifier: String?, isConflict: Bool) async {
        if isConflict { await lookForConflicts() }
    }

    public func presentedItemDidResolveConflictVersion(_ identifier: String?) async { await lookForConflicts() }

    /// Brings `.inConflict` up to date.
    public func lookForConflicts() async {
        // While nobody can tell, what was known stays.
        guard let conflicts = try? await FileVersion.unresolvedConflictVersionsOfItem(at: fileURL) else { return }
        if conflicts.isEmpty { documentState.remove(.inConflict) } else { documentState.insert(.inConflict) }
    }

    // MARK: The mount goes, and comes back

    /// Nothing can be saved: the user has signed out, or the mount has ended. What is not saved is kept here until the
    /// same container is back.
    public func presentationDidEnd() async {
        guard !documentState.contains(.closed) else { return }
        isPresenting = false
        isRelinquishedToWriter = false
        setEditing(false)
        await report(
            UbiquitousFileError(
                .ubiquitousFileUbiquityServerNotAvailable,
                "the document's container is not mounted any more: \(fileURL.path)"))
        returnTask = Task { [weak self] in
            while (try? await Sleepers.shared.sleep(for: Self.returnInterval)) != nil {
                guard let self, await !self.hasReturned() else { return }
            }
        }
    }

    private func hasReturned() async -> Bool {
        // A mount that is just coming cannot be asked yet: the next look tells.
        guard let now = try? await DocumentDisk.container(of: fileURL), now == container,
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
