public import FoundationEssentials
import UbiquitySystem

// Opening, saving and closing a document.
extension Document {
    /// Maximum attempts of one save when `handleError` asks for a retry.
    private static let maximumAttempts = 5

    /// Maximum saves in a row during a close. A class that reports a change with each save would never finish.
    private static let maximumClosingSaves = 100

    /// Reads the document and registers its presenter, with no gap between the two. A second call while the document is
    /// opening waits for the first.
    ///
    /// - Throws: `UbiquitousFileError`, or the error of `load(fromContents:ofType:)`.
    public func open() async throws {
        if let opening = phase.opening { return try await opening.value }
        guard documentState.contains(.closed) else { return }
        let opening = Task {
            defer { phase.opening = nil }
            try await openOnce()
        }
        phase.opening = opening
        try await withTaskCancellationHandler { try await opening.value } onCancel: { opening.cancel() }
    }

    private func openOnce() async throws {
        documentState.insert(.progressAvailable)
        defer { documentState.remove(.progressAvailable) }
        do {
            fileURL = try await DocumentDisk.resolved(fileURL)
            try await progress.watch(fileURL) { [self] in
                try await FileCoordinator(filePresenter: self).coordinate(readingItemAt: fileURL) { url in
                    fileURL = url
                    // The stamp is taken before the read, so a change during the read counts as a change.
                    let stamp = try await DocumentDisk.stamp(of: url)
                    try await checkFormat(of: url)
                    try await read(from: url)
                    disk.stamp = stamp
                    changes.note(.cleared)
                    undoManager?.removeAllActions()
                    lastError = nil
                    // The document is open before its presenter is registered, because every later message is meant for
                    // an open document.
                    documentState.remove(.closed)
                    if isReadOnly { setEditing(false) }
                    try await presence.begin(self)
                }
            }
            guard !documentState.contains(.closed) else {
                throw UbiquitousFileError(
                    .fileNoSuchFile, "the document was deleted while it was being opened: \(fileURL.path)")
            }
        } catch {
            let failure = UbiquitousFileError.from(error, isWriting: false)
            await finish()
            await report(failure)
            throw failure
        }
        await presence.readUnannouncedChange(self)
        await lookForConflicts()
    }

    /// Saves unsaved changes, including those typed during the save, and unregisters the presenter.
    ///
    /// - Throws: The error of a failed save. The document then stays open and loses nothing.
    public func close() async throws {
        // The caller of `open` gets its error.
        if let opening = phase.opening { _ = await opening.result }
        guard !documentState.contains(.closed) else { return }
        phase.isClosing = true
        defer { phase.isClosing = false }
        for failure in phase.beingHandled.values { userInteractionNoLongerPermitted(forError: failure) }
        for _ in 1...Self.maximumClosingSaves where hasUnsavedChanges { try await autosave() }
        guard !hasUnsavedChanges || documentState.contains(.closed) else {
            throw UbiquitousFileError(.fileWriteUnknown, "the document changes with each save: \(fileURL.path)")
        }
        await finish()
    }

    /// Closes without saving. The state changes at once, with no suspension in which a change could be typed.
    func finish() async {
        saves.timer.cancel()
        presence.reset()
        disk.access = .readWrite
        let wasDisabled = documentState.contains(.editingDisabled)
        documentState = .closed
        if wasDisabled { enableEditing() }
        await presence.end(self)
    }

    /// Saves the changes since the last save.
    ///
    /// - Throws: `UbiquitousFileError`, after `handleError` has declined a retry.
    public func autosave() async throws {
        // A save already running may have saved everything.
        await saves.wait()
        guard hasUnsavedChanges, !documentState.contains(.closed) else { return }
        try await save(to: fileURL, for: .forOverwriting)
    }

    /// Saves a snapshot in the background. Saves run one after the other.
    ///
    /// - Parameter url: The URL to write to.
    /// - Parameter operation: `.forCreating` for a new document, which is open afterwards.
    /// - Throws: `UbiquitousFileError`, after `handleError` has declined a retry.
    public func save(to url: URL, for operation: SaveOperation) async throws {
        try await saves.run { [self] in try await attemptSaving(to: url, for: operation) }
    }

    /// Reads the document again and discards unsaved changes.
    ///
    /// - Parameter url: The document's own URL, or another one such as a version's.
    /// - Throws: `UbiquitousFileError`, or the error of `load(fromContents:ofType:)`.
    public func revert(toContentsOf url: URL) async throws {
        let url = try await DocumentDisk.resolved(url)
        documentState.insert(.progressAvailable)
        setEditing(false)
        defer {
            documentState.remove(.progressAvailable)
            if !presence.isRelinquishedToWriter { setEditing(true) }
        }
        let isOwn = url == fileURL, before = disk.stamp
        do {
            try await progress.watch(url) { [self] in
                try await FileCoordinator(filePresenter: self).coordinate(
                    readingItemAt: url, options: .withoutChanges
                ) { place in
                    let stamp = try await DocumentDisk.stamp(of: place)
                    if isOwn { try await checkFormat(of: place) }
                    try requireNothingTyped()
                    try await read(from: place)
                    // Content read from another URL does not change the known state of the document's own file.
                    disk.stamp = isOwn ? stamp : before
                    undoManager?.removeAllActions()
                    // Updates the count without a suspension: changes typed from here on belong to the content just
                    // read.
                    updateChangeCount(isOwn ? .cleared : .done)
                }
            }
        } catch let typed as TypedMeanwhile {
            throw typed
        } catch {
            let failure = UbiquitousFileError.from(error, isWriting: false)
            await report(failure)
            throw failure
        }
    }

    /// Reads the document again unless the user types before it is loaded. Typed changes stay; the next save then finds
    /// that the file has changed.
    func revertIfUnchanged() async throws {
        try await TypedMeanwhile.$expectedCount.withValue(changes.count) { try await revert(toContentsOf: fileURL) }
    }

    func requireNothingTyped() throws {
        guard let count = TypedMeanwhile.expectedCount else { return }
        let isOpen = !documentState.contains(.closed)
        guard isOpen, !hasUnsavedChanges, changes.count == count else { throw TypedMeanwhile() }
    }

    // MARK: One save

    private func attemptSaving(to url: URL, for operation: SaveOperation) async throws {
        var mayOverwrite = false
        for attempt in 1... {
            do {
                try await saveOnce(to: url, for: operation, mayOverwrite: mayOverwrite)
                documentState.remove(.savingError)
                lastError = nil
                return
            } catch {
                let failure = UbiquitousFileError.from(error)
                documentState.insert(.savingError)
                guard await report(failure), attempt < Self.maximumAttempts else { throw failure }
                let code = (failure as? UbiquitousFileError)?.code
                mayOverwrite = code == .fileChangedByOther || code == .fileNoSuchFile
            }
        }
    }

    private func saveOnce(to url: URL, for operation: SaveOperation, mayOverwrite: Bool) async throws {
        guard !isReadOnly || url != fileURL else { throw UbiquitousFileError.newerFormat(url, canRead: true) }
        let url = try await DocumentDisk.resolved(url)
        let token = changeCountToken(for: operation)
        let snapshot = try snapshot()
        try await requireContainer(of: url, for: operation)
        let coordinator = FileCoordinator(filePresenter: self)
        let option: FileCoordinator.WritingOption? = operation == .forCreating ? .forReplacing : nil
        try await coordinator.coordinate(writingItemAt: url, options: option) { place in
            if operation == .forOverwriting, !mayOverwrite { try await requireUnchanged(place) }
            try await writeContents(snapshot, safelyTo: place, for: operation)
            disk.stamp = try await DocumentDisk.stamp(of: place)
            guard operation == .forCreating || presence.isDeleted else { return }
            presence.isDeleted = false
            await presence.end(self)
            fileURL = place
            if isReadOnly {
                disk.access = .readWrite
                setEditing(true)
            }
            let wasClosed = documentState.contains(.closed)
            documentState.remove(.closed)
            do { try await presence.begin(self) } catch {
                if wasClosed { documentState.insert(.closed) }
                throw error
            }
        }
        updateChangeCount(withToken: token, for: operation)
        if hasUnsavedChanges { scheduleAutosave() }
        // The document is saved. A preview that cannot be written now is written with the next save.
        if let preview = try? previewContents() { try? await DocumentPreview.write(preview, for: url) }
    }

    /// The content to save, which later changes do not reach.
    private func snapshot() throws -> Contents {
        let contents = try contents(forType: savingFileType)
        guard case .package(let package) = contents else { return contents }
        return .package(package.snapshot())
    }

    /// Throws if another program has written the file since this document last read it.
    private func requireUnchanged(_ place: URL) async throws {
        guard let known = disk.stamp else { return }
        guard let now = try await DocumentDisk.stamp(of: place) else {
            throw UbiquitousFileError(.fileNoSuchFile, "the document is gone: \(place.path)")
        }
        guard now == known else {
            throw UbiquitousFileError(
                .fileChangedByOther, "another program has changed the document: \(place.path)")
        }
    }

    /// Throws if the document's container is no longer mounted, or another account is signed in.
    private func requireContainer(of url: URL, for operation: SaveOperation) async throws {
        guard let container = presence.container, operation == .forOverwriting else { return }
        guard try await DocumentDisk.container(of: url) == container else {
            throw UbiquitousFileError(
                .ubiquitousFileUbiquityServerNotAvailable,
                "the document's container is not mounted; it will be saved when it is: \(url.path)")
        }
    }

    // MARK: Autosave

    func scheduleAutosave() {
        guard !documentState.contains(.closed), !isReadOnly else { return }
        saves.timer.schedule { [weak self] in await self?.autosaveNow() }
    }

    private func autosaveNow() async {
        // A failed save has reported itself; the next autosave retries.
        try? await autosave()
        if hasUnsavedChanges { scheduleAutosave() }
    }

    // MARK: Format

    /// Reads the file's marks.
    ///
    /// - Throws: `.fileFormatTooNew` if this program must not open the document.
    private func checkFormat(of url: URL) async throws {
        guard let format else { return }
        let access = try await DocumentDisk.format(of: url)?.access(forVersion: format.version) ?? .readWrite
        guard access != .none else { throw UbiquitousFileError.newerFormat(url, canRead: false) }
        disk.access = access
    }

    // MARK: Failures

    /// Lets `handleError` decide about a failure.
    @discardableResult
    func report(_ error: any Error) async -> Bool {
        lastError = error
        let number = phase.begin(error)
        let isRecovered = await handleError(error, userInteractionPermitted: !phase.isClosing)
        phase.beingHandled[number] = nil
        finishedHandlingError(error, recovered: isRecovered)
        return isRecovered
    }

    /// Carries out the choice of the recovery attempter. Returns whether the operation is tried again.
    func recover(by option: DocumentRecoveryOption) async -> Bool {
        switch option {
        case .retry, .overwrite, .recreate: return true
        case .cancel: return false
        case .revert:
            changes.note(.cleared)
            Task { [weak self] in
                guard let self else { return }
                // A failed read reports itself.
                try? await revert(toContentsOf: fileURL)
            }
            return false
        case .saveCopy(let url):
            Task { [weak self] in
                // A failed save reports itself.
                try? await self?.save(to: url, for: .forCreating)
            }
            return false
        }
    }
}

/// The actions of a document that are in progress.
struct DocumentPhase {
    /// The running `open`.
    var opening: Task<Void, any Error>?
    var isClosing = false
    /// The failures that `handleError` is asked about.
    var beingHandled: [Int: any Error] = [:]
    private var lastNumber = 0

    mutating func begin(_ error: any Error) -> Int {
        lastNumber += 1
        beingHandled[lastNumber] = error
        return lastNumber
    }
}

/// The user typed during an automatic reload, so the reload is abandoned.
struct TypedMeanwhile: Error {
    /// The change count at the start of an automatic reload.
    @TaskLocal static var expectedCount: Int?
}
