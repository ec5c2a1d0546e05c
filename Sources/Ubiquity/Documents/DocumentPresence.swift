import FoundationEssentials
import UbiquitySystem

/// A document's part as a presenter: its registration, the actions of other programs on its file, and the checks for
/// their changes.
@MainActor
final class DocumentPresence {
    /// Interval between checks whether the mount is back.
    private static let returnInterval: Duration = .seconds(1)

    /// Pauses before each check for an announced change.
    private static let looks: [Duration] = [0, 20, 100, 500, 1000].map { .milliseconds($0) }

    /// The state folder of the document's container; nil outside of all containers.
    private(set) var container: String?
    /// The document's account while it is presented.
    private var identity: UbiquityIdentityToken??
    private var isPresenting = false
    private(set) var isRelinquishedToWriter = false
    private var hasChangedMeanwhile = false
    /// A deletion was announced. Its outcome shows afterwards.
    private(set) var awaitsDeletion = false
    /// The announced deletion also removes the changes that were unsaved then.
    private var deletionTakesChanges = false
    /// The file was deleted while changes were unsaved. The document stays open until they are saved or discarded.
    var isDeleted = false
    /// The running check for announced changes, and whether more were announced since it began.
    private(set) var changeLook: Task<Void, Never>?
    private var hasMoreChanges = false
    private var returnTask: Task<Void, Never>?

    // MARK: Registration

    /// Registers the presenter. A document outside of all containers is not coordinated.
    func begin(_ document: Document) async throws {
        guard !isPresenting, let place = try await DocumentDisk.container(of: document.fileURL) else { return }
        isPresenting = true
        container = place
        identity = await DocumentDisk.identity(of: document.fileURL)
        do { try await FileCoordinator.addFilePresenter(document) } catch {
            isPresenting = false
            throw error
        }
    }

    func end(_ document: Document) async {
        guard isPresenting else { return }
        isPresenting = false
        await FileCoordinator.removeFilePresenter(document)
    }

    /// Forgets the actions of other programs: the document closes.
    func reset() {
        returnTask?.cancel()
        returnTask = nil
        (isRelinquishedToWriter, hasChangedMeanwhile) = (false, false)
        (awaitsDeletion, deletionTakesChanges, isDeleted) = (false, false, false)
    }

    /// The file has moved to another container, or out of all containers: the document is presented there.
    func follow(_ document: Document) async {
        guard isPresenting, !document.documentState.contains(.closed) else { return }
        let now: String?
        // The next save reports a place that cannot be read.
        do { now = try await DocumentDisk.container(of: document.fileURL) } catch { return }
        guard now != container else { return }
        await end(document)
        container = now
        // The next save reports a presenter that cannot be registered.
        if now != nil { try? await begin(document) }
    }

    // MARK: Requests

    func relinquishToWriter(_ document: Document) {
        isRelinquishedToWriter = true
        document.setEditing(false)
    }

    func reacquire(_ document: Document) {
        isRelinquishedToWriter = false
        if !document.documentState.contains(.closed) { document.setEditing(true) }
        let hasChanged = hasChangedMeanwhile || awaitsDeletion
        hasChangedMeanwhile = false
        if hasChanged { changeAnnounced(document) }
    }

    /// - Parameter hadChanges: Whether changes were unsaved when the deletion was announced.
    func deletionAnnounced(hadChanges: Bool) {
        awaitsDeletion = true
        if hadChanges { deletionTakesChanges = true }
    }

    /// The file is gone. If unsaved changes may be lost with it, the document stays open until they are saved
    /// somewhere.
    private func fileDeleted(_ document: Document) async {
        guard deletionTakesChanges || document.hasUnsavedChanges else { return await document.finish() }
        (awaitsDeletion, deletionTakesChanges) = (false, false)
        isDeleted = true
        await end(document)
        document.changes.noteLost()
        document.documentState.insert(.savingError)
        let failure = UbiquitousFileError(
            .fileNoSuchFile, "the document was deleted while it had unsaved changes: \(document.fileURL.path)")
        guard await document.report(failure) else { return document.scheduleAutosave() }
        // A failed save has reported itself.
        try? await document.save(to: document.fileURL, for: .forCreating)
    }

    // MARK: Changes

    /// Starts one task that checks for changes. It runs apart, so the presenter can answer requests meanwhile. While
    /// another program has the document, the check is postponed until that program is done.
    func changeAnnounced(_ document: Document) {
        guard !document.documentState.contains(.closed) else { return }
        guard !isRelinquishedToWriter else { return hasChangedMeanwhile = true }
        hasMoreChanges = true
        guard changeLook == nil else { return }
        changeLook = Task {
            while hasMoreChanges, !document.documentState.contains(.closed) {
                hasMoreChanges = false
                await readChanges(document)
            }
            changeLook = nil
        }
    }

    /// Checks once for a change between reading and presenting: a program that does not coordinate announces none.
    func readUnannouncedChange(_ document: Document) async { await readChanges(document, Self.looks.prefix(1)) }

    private func readChanges(_ document: Document, _ looks: ArraySlice<Duration> = looks[...]) async {
        guard !document.documentState.contains(.closed) else { return }
        await document.saves.wait()
        let differs = await differsFromDisk(document, looks)
        guard !document.documentState.contains(.closed) else { return }
        // Another program has asked for the document again; the check runs afterwards.
        guard !isRelinquishedToWriter else { return hasChangedMeanwhile = true }
        if awaitsDeletion {
            if differs, await isGone(document) { return await fileDeleted(document) }
            (awaitsDeletion, deletionTakesChanges) = (false, false)
        }
        guard differs, !document.hasUnsavedChanges, !isDeleted else { return }
        // A failed read has reported itself.
        try? await document.revertIfUnchanged()
    }

    private func isGone(_ document: Document) async -> Bool {
        // The next save reports a place that cannot be read.
        do { return try await DocumentDisk.stamp(of: document.fileURL) == nil } catch { return false }
    }

    /// Compares the file with the state known so far. A message can arrive shortly before the kernel drops its cached
    /// attributes, so the check is repeated with growing pauses. A message about a change this document already knows
    /// costs all of them.
    private func differsFromDisk(_ document: Document, _ looks: ArraySlice<Duration>) async -> Bool {
        for pause in looks {
            guard (try? await Sleepers.shared.sleep(for: pause)) != nil else { return false }
            // The next save reports a place that cannot be read.
            do {
                if try await DocumentDisk.stamp(of: document.fileURL) != document.disk.stamp { return true }
            } catch { return false }
        }
        return false
    }

    // MARK: The mount ends and returns

    func mountEnded(_ document: Document) async {
        isPresenting = false
        isRelinquishedToWriter = false
        document.setEditing(false)
        if case .some(let now) = await DocumentDisk.identity(of: document.fileURL), .some(now) != identity {
            guard !document.documentState.contains(.closed) else { return }
            document.accountDidLeave()
            guard document.hasUnsavedChanges else { return await document.finish() }
        }
        await document.report(
            UbiquitousFileError(
                .ubiquitousFileUbiquityServerNotAvailable,
                "the document's container is no longer mounted: \(document.fileURL.path)"))
        returnTask = Task { [weak self, weak document] in
            while (try? await Sleepers.shared.sleep(for: Self.returnInterval)) != nil {
                guard let self, let document, await !self.hasReturned(document) else { return }
            }
        }
    }

    private func hasReturned(_ document: Document) async -> Bool {
        // A mount that is starting cannot be asked yet; the next check finds it.
        guard let now = try? await DocumentDisk.container(of: document.fileURL), now == container,
            await DocumentDisk.identity(of: document.fileURL) == identity,
            (try? await FileCoordinator(filePresenter: document).coordinate(
                readingItemAt: document.fileURL, options: .withoutChanges,
                byAccessor: { _ in try await begin(document) })) != nil
        else { return false }
        document.setEditing(true)
        document.lastError = nil
        await readChanges(document)
        await document.lookForConflicts()
        if document.hasUnsavedChanges { try? await document.autosave() }
        return true
    }
}
