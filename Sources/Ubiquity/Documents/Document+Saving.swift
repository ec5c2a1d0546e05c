public import FoundationEssentials

// Opening, saving, closing.
extension Document {
    /// Times that a save is tried anew because `handleError` says so.
    private static let maximumAttempts = 5

    /// Reads the document and has it take part in what happens to it, so that nothing is missed between the two.
    public func open() async throws {
        guard documentState.contains(.closed) else { return }
        documentState.insert(.progressAvailable)
        defer { documentState.remove(.progressAvailable) }
        do {
            try await FileCoordinator(filePresenter: self).coordinate(readingItemAt: fileURL) { url in
                fileURL = url
                try await read(from: url)
                try await present()
            }
        } catch {
            let failure = UbiquitousFileError.from(error, isWriting: false)
            await stopPresenting()
            await report(failure)
            throw failure
        }
        changes.note(.cleared)
        documentState.remove(.closed)
        lastError = nil
        await lookForConflicts()
    }

    /// Saves what is not saved, and ends the part that the document takes.
    /// - Throws: what saving throws; then it stays open, and nothing is lost.
    public func close() async throws {
        guard !documentState.contains(.closed) else { return }
        isClosing = true
        defer { isClosing = false }
        if hasUnsavedChanges { try await autosave() }
        await finish()
    }

    /// Ends its part without saving.
    func finish() async {
        cancelAutosave()
        returnTask?.cancel()
        returnTask = nil
        documentState = .closed
        await stopPresenting()
    }

    /// Saves what has changed since the last save.
    public func autosave() async throws {
        guard hasUnsavedChanges, !documentState.contains(.closed) else { return }
        try await save(to: fileURL, for: .forOverwriting)
    }

    /// Saves a snapshot in the background. Saves come one after the other.
    /// - Parameter operation: `.forCreating` for a document that does not exist yet, which is open then.
    public func save(to url: URL, for operation: SaveOperation) async throws {
        while let running = currentSave { _ = await running.result }
        let save = Task { try await attemptSaving(to: url, for: operation) }
        currentSave = save
        defer { currentSave = nil }
        try await save.value
    }

    /// Reads the document anew, and gives up what is not saved.
    /// - Parameter url: its own place, or another document's, such as a version's.
    public func revert(toContentsOf url: URL) async throws {
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
            ) { try await read(from: $0) }
        } catch {
            let failure = UbiquitousFileError.from(error, isWriting: false)
            await report(failure)
            throw failure
        }
        if isOwn {
            updateChangeCount(.cleared)
        } else {
            // What was read is not what stands at its own place.
            known = before
            updateChangeCount(.done)
        }
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
            guard operation == .forCreating else { return }
            if isPresenting { await stopPresenting() }
            fileURL = place
            try await present()
            documentState.remove(.closed)
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
            guard (try? await Task.sleep(for: autosaveDelay)) != nil else { return }
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
