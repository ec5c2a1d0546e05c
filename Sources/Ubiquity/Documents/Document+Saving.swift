public import FoundationEssentials
import UbiquitySystem

// Opening, saving, closing.
extension Document {
    /// Times that a save is tried anew because `handleError` says so.
    private static let maximumAttempts = 5

    /// Saves in a row while one closes: a class that tells of a change with each of its saves is never done.
    private static let maximumClosingSaves = 100

    /// Reads the document and has it take part in what happens to it, so that nothing is missed between the two.
    /// Whoever opens it while it is being opened waits for that.
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
                // From before the reading: what is changed meanwhile is a change.
                let stamp = try await DocumentDisk.stamp(of: url)
                try await read(from: url)
                known = stamp
                changes.note(.cleared)
                lastError = nil
                // It is open before it is a presenter: what it is told and asked from then on is for an open one.
                documentState.remove(.closed)
                try await present()
            }
            guard !documentState.contains(.closed) else {
                throw UbiquitousFileError(.fileNoSuchFile, "it was deleted while it was being opened: \(fileURL.path)")
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

    /// Saves what is not saved, also what is typed while it does so, and ends the part that the document takes.
    /// - Throws: what saving throws; then it stays open, and nothing is lost.
    public func close() async throws {
        // How it ended was told to whoever opened it.
        if let opening { _ = await opening.result }
        guard !documentState.contains(.closed) else { return }
        isClosing = true
        defer { isClosing = false }
        for _ in 1...Self.maximumClosingSaves where hasUnsavedChanges { try await autosave() }
        guard !hasUnsavedChanges || documentState.contains(.closed) else {
            throw UbiquitousFileError(.fileWriteUnknown, "it changes with each save: \(fileURL.path)")
        }
        await finish()
    }

    /// Ends its part without saving. It is closed at once, with no wait in which something could be typed.
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

    /// Saves what has changed since the last save.
    public func autosave() async throws {
        // Another's save may have saved it all.
        await waitForSave()
        guard hasUnsavedChanges, !documentState.contains(.closed) else { return }
        try await save(to: fileURL, for: .forOverwriting)
    }

    /// Saves a snapshot in the background. Saves come one after the other.
    /// - Parameter operation: `.forCreating` for a document that does not exist yet, which is open then.
    public func save(to url: URL, for operation: SaveOperation) async throws {
        let before = currentSave
        let save = Task {
            // How that one ended was told to whoever wanted it.
            _ = await before?.result
            try await attemptSaving(to: url, for: operation)
        }
        currentSave = save
        defer { if currentSave == save { currentSave = nil } }
        try await save.value
    }

    /// Waits for the saves that have begun.
    func waitForSave() async {
        // How they ended was told to whoever wanted them.
        if let running = currentSave { _ = await running.result }
    }

    /// Reads the document anew, and gives up what is not saved.
    /// - Parameter url: its own place, or another document's, such as a version's.
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
                // What was read elsewhere is not what stands at its own place.
                known = isOwn ? stamp : before
                // At once: what is typed from here on is typed into what was read.
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

    /// Reads it anew unless something is typed before it is loaded: that stays, and the next save finds out that the
    /// file is another by now.
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

    /// What another wrote since this document was last read is not overwritten without a word.
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

    /// A mount that has ended, or that is of another account now, is no place to write to.
    private func requireContainer(of url: URL, for operation: SaveOperation) async throws {
        guard let container, operation == .forOverwriting else { return }
        guard try await DocumentDisk.container(of: url) == container else {
            throw UbiquitousFileError(
                .ubiquitousFileUbiquityServerNotAvailable,
                "the document's container is not mounted; it will be saved when it is: \(url.path)")
        }
    }

    // MARK: By itself

    func scheduleAutosave() {
        guard autosaveTask == nil, !documentState.contains(.closed) else { return }
        autosaveTask = Task { [weak self, autosaveDelay] in
            // A cancelled one has nothing left to do.
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
        // Its failure has been told; the next time comes.
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

/// Something was typed while the document was to be read anew by itself: it is not read.
struct TypedMeanwhile: Error {
    /// Of a document that is read anew by itself: its changes when that began.
    @TaskLocal static var expectedCount: Int?
}
