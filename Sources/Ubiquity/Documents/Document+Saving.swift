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
        if let opening { return try await opening.value }
        guard documentState.contains(.closed) else { return }
        let opening = Task {
            defer { self.opening = nil }
            try await openOnce()
        }
        self.opening = opening
        try await withTaskCancellationHandler { try await opening.value } onCancel: { opening.cancel() }
    }

    private func openOnce() async throws {
        documentState.insert(.progressAvailable)
        defer { documentState.remove(.progressAvailable) }
        do {
            fileURL = try await DocumentDisk.resolved(fileURL)
            try await FileCoordinator(filePresenter: self).coordinate(readingItemAt: fileURL) { url in
                fileURL = url
                // The stamp is taken before the read, so a change during the read counts as a change.
                let stamp = try await DocumentDisk.stamp(of: url)
                try await read(from: url)
                known = stamp
                changes.note(.cleared)
                lastError = nil
                // The document is open before its presenter is registered, because every later message is meant for an
                // open document.
                documentState.remove(.closed)
                try await present()
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
        await takeInUntoldChange()
        await lookForConflicts()
    }

    /// Saves unsaved changes, including those typed during the save, and unregisters the presenter.
    ///
    /// - Throws: The error of a failed save. The document then stays open and loses nothing.
    public func close() async throws {
        // The caller of `open` gets its error.
        if let opening { _ = await opening.result }
        guard !documentState.contains(.closed) else { return }
        isClosing = true
        defer { isClosing = false }
        for _ in 1...Self.maximumClosingSaves where hasUnsavedChanges { try await autosave() }
        guard !hasUnsavedChanges || documentState.contains(.closed) else {
            throw UbiquitousFileError(.fileWriteUnknown, "the document changes with each save: \(fileURL.path)")
        }
        await finish()
    }

    /// Closes without saving. The state changes at once, with no suspension in which a change could be typed.
    func finish() async {
        cancelAutosave()
        returnTask?.cancel()
        returnTask = nil
        (isRelinquishedToWriter, hasChangedMeanwhile) = (false, false)
        (awaitsDeletion, deletionTakesChanges, isDeleted) = (false, false, false)
        let wasDisabled = documentState.contains(.editingDisabled)
        documentState = .closed
        if wasDisabled { enableEditing() }
        await stopPresenting()
    }

    /// Saves the changes since the last save.
    ///
    /// - Throws: `UbiquitousFileError`, after `handleError` has declined a retry.
    public func autosave() async throws {
        // A save already running may have saved everything.
        await waitForSave()
        guard hasUnsavedChanges, !documentState.contains(.closed) else { return }
        try await save(to: fileURL, for: .forOverwriting)
    }

    /// Saves a snapshot in the background. Saves run one after the other.
    ///
    /// - Parameter url: The URL to write to.
    /// - Parameter operation: `.forCreating` for a new document, which is open afterwards.
    /// - Throws: `UbiquitousFileError`, after `handleError` has declined a retry.
    public func save(to url: URL, for operation: SaveOperation) async throws {
        let before = currentSave
        let save = Task {
            // The caller of that save gets its error.
            _ = await before?.result
            try await attemptSaving(to: url, for: operation)
        }
        currentSave = save
        defer { if currentSave == save { currentSave = nil } }
        try await save.value
    }

    /// Waits for the saves that have begun.
    func waitForSave() async {
        // The callers of those saves get their errors.
        if let running = currentSave { _ = await running.result }
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
            if !isRelinquishedToWriter { setEditing(true) }
        }
        let isOwn = url == fileURL, before = known
        do {
            try await FileCoordinator(filePresenter: self).coordinate(
                readingItemAt: url, options: .withoutChanges
            ) { place in
                let stamp = try await DocumentDisk.stamp(of: place)
                try requireNothingTyped()
                try await read(from: place)
                // Content read from another URL does not change the known state of the document's own file.
                known = isOwn ? stamp : before
                // Updates the count without a suspension: changes typed from here on belong to the content just read.
                updateChangeCount(isOwn ? .cleared : .done)
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
        let url = try await DocumentDisk.resolved(url)
        let token = changeCountToken(for: operation)
        var snapshot = try contents(forType: savingFileType)
        if case .package(let package) = snapshot { snapshot = .package(package.snapshot()) }
        try await requireContainer(of: url, for: operation)
        let coordinator = FileCoordinator(filePresenter: self)
        let option: FileCoordinator.WritingOption? = operation == .forCreating ? .forReplacing : nil
        try await coordinator.coordinate(writingItemAt: url, options: option) { place in
            if operation == .forOverwriting, !mayOverwrite { try await requireUnchanged(place) }
            try await writeContents(snapshot, safelyTo: place, for: operation)
            known = try await DocumentDisk.stamp(of: place)
            guard operation == .forCreating || isDeleted else { return }
            isDeleted = false
            await stopPresenting()
            fileURL = place
            let wasClosed = documentState.contains(.closed)
            documentState.remove(.closed)
            do { try await present() } catch {
                if wasClosed { documentState.insert(.closed) }
                throw error
            }
        }
        updateChangeCount(withToken: token, for: operation)
        if hasUnsavedChanges { scheduleAutosave() }
    }

    /// Throws if another program has written the file since this document last read it.
    private func requireUnchanged(_ place: URL) async throws {
        guard let known else { return }
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
        guard let container, operation == .forOverwriting else { return }
        guard try await DocumentDisk.container(of: url) == container else {
            throw UbiquitousFileError(
                .ubiquitousFileUbiquityServerNotAvailable,
                "the document's container is not mounted; it will be saved when it is: \(url.path)")
        }
    }

    // MARK: Autosave

    func scheduleAutosave() {
        guard autosaveTask == nil, !documentState.contains(.closed) else { return }
        autosaveTask = Task { [weak self, autosaveDelay] in
            // A cancelled autosave does nothing.
            guard (try? await Sleepers.shared.sleep(for: autosaveDelay)) != nil else { return }
            await self?.autosaveNow()
        }
    }

    func cancelAutosave() {
        autosaveTask?.cancel()
        autosaveTask = nil
    }

    private func autosaveNow() async {
        autosaveTask = nil
        // A failed save has reported itself; the next autosave retries.
        try? await autosave()
        if hasUnsavedChanges { scheduleAutosave() }
    }

    // MARK: Failures

    @discardableResult
    func report(_ error: any Error) async -> Bool {
        lastError = error
        return await handleError(error, userInteractionPermitted: !isClosing)
    }
}

/// The user typed during an automatic reload, so the reload is abandoned.
struct TypedMeanwhile: Error {
    /// The change count at the start of an automatic reload.
    @TaskLocal static var expectedCount: Int?
}
