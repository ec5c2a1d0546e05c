public import FoundationEssentials

/// An open document: it saves itself and follows the changes of other programs and devices.
///
/// Subclass it and override `load(fromContents:ofType:)` and `contents(forType:)`; report each change with
/// `updateChangeCount`. The document then saves itself some time after the first unsaved change, when it is closed, and
/// when another program or device needs the file. It is a presenter from `open` to `close`: it follows its file when
/// that is moved, loads changes of others, and closes when the file is deleted.
///
/// Close every document that was opened: an open document is asked about accesses, and other programs wait for its
/// answers.
///
/// A save writes a snapshot, so the program and the user continue meanwhile. A failed save calls `handleError` and
/// shows in `documentState`; the next save tries again. No typed change is discarded.
///
/// - Source: `UIDocument`.
@MainActor
open class Document: FilePresenter {
    /// A document's content on disk.
    public enum Contents: Sendable {
        /// A file.
        case data(Data)
        /// A folder that is one document.
        case package(FileWrapper)
    }

    /// The states of a document; several can hold at a time.
    public struct State: OptionSet, Hashable, Sendable {
        public let rawValue: Int
        nonisolated public init(rawValue: Int) { self.rawValue = rawValue }
        /// The document is open, with no problem.
        nonisolated public static let normal: State = []
        /// The document is not open.
        nonisolated public static let closed = State(rawValue: 1)
        /// Another version of the file needs a decision: see `FileVersion`.
        nonisolated public static let inConflict = State(rawValue: 2)
        /// The last save failed.
        nonisolated public static let savingError = State(rawValue: 4)
        /// The user should not type now: another program changes the document, or it cannot be saved.
        nonisolated public static let editingDisabled = State(rawValue: 8)
        /// The document is being read, which may include a download.
        nonisolated public static let progressAvailable = State(rawValue: 16)
    }

    /// The kind of a change, for undo and redo. `cleared` marks the document as saved.
    public enum ChangeKind: Sendable { case done, undone, redone, cleared }
    /// Whether a save creates the file or replaces its content.
    public enum SaveOperation: Sendable { case forCreating, forOverwriting }

    /// Identifies the changes that a snapshot contains.
    public struct ChangeCountToken: Hashable, Sendable { let count: Int }

    /// The URL of the file. It follows moves of an open document.
    public internal(set) var fileURL: URL { didSet { disk.place.move(to: fileURL.systemPath) } }
    /// The file's modification date when it was last read or written.
    public var fileModificationDate: Date? { disk.stamp?.modificationDate }
    /// The current state.
    public internal(set) var documentState: State = .closed {
        didSet { if documentState != oldValue { listeners.report(documentState) } }
    }
    /// The last failure; nil after the next success.
    public internal(set) var lastError: (any Error)?
    /// How long a change waits at most before the document saves itself.
    public var autosaveDelay: Duration {
        get { saves.timer.delay }
        set { saves.timer.delay = newValue }
    }
    /// How much of the content has been downloaded while the document is being read.
    public let progress = DocumentProgress()
    /// Undoes and redoes changes. The document counts each change that it reports. Reading the content anew removes all
    /// its actions.
    public var undoManager: DocumentUndoManager? {
        didSet {
            oldValue?.report = nil
            undoManager?.report = { [weak self] in self?.updateChangeCount($0) }
        }
    }
    /// Chooses a way out of failures. `handleError` asks it by default.
    public weak var recoveryAttempter: (any DocumentRecoveryAttempter)?

    // Internal state: the file as last seen, the saves, and the presenter.
    var disk: KnownDisk
    let saves = SaveQueue()
    let presence = DocumentPresence()
    var changes = ChangeCount()
    var phase = DocumentPhase()
    private let listeners = StateListeners()

    /// Makes a closed document for a file, which need not exist yet.
    ///
    /// - Parameter fileURL: The URL of the file.
    public init(fileURL: URL) {
        self.fileURL = fileURL
        disk = KnownDisk(place: DocumentPlace(fileURL.systemPath))
    }

    /// The name shown to people: the file name without its extension.
    public var localizedName: String { fileURL.deletingPathExtension().lastPathComponent }
    /// The file's extension; nil if it has none.
    open var fileType: String? { fileURL.pathExtension.isEmpty ? nil : fileURL.pathExtension }
    /// The extension for the next save; `fileType` by default.
    open var savingFileType: String? { fileType }

    /// The current state, followed by every later state.
    public var states: AsyncStream<State> { listeners.stream(from: documentState) }

    /// Whether the document can be read and not saved, because a newer program wrote it.
    public var isReadOnly: Bool { disk.access != .readWrite }

    // MARK: For subclasses to override

    /// Loads content into the document, on opening and when another program has changed the file.
    ///
    /// - Parameter contents: The content of the file or package.
    /// - Parameter type: The extension of the file; nil if it has none.
    /// - Throws: An error if the content is invalid. The document then does not open.
    open func load(fromContents contents: Contents, ofType type: String?) throws {
        throw UbiquitousFileError(
            .featureUnsupported, "the document's class does not override load(fromContents:ofType:)")
    }

    /// Returns the content to save. In a package, reuse the wrappers of unchanged members: they are not written again.
    ///
    /// - Parameter type: The extension for the save.
    /// - Throws: An error if there is no valid content. The save then fails.
    open func contents(forType type: String?) throws -> Contents {
        throw UbiquitousFileError(.featureUnsupported, "the document's class does not override contents(forType:)")
    }

    /// The format of the documents that this class writes, with the marks for older programs. Nil, the default, writes
    /// no marks and ignores those of a file.
    open var format: DocumentFormat? { nil }

    /// Reads the document, inside a coordinated read.
    ///
    /// - Parameter url: The URL of the file.
    /// - Throws: `UbiquitousFileError`, or the error of `load(fromContents:ofType:)`.
    open func read(from url: URL) async throws {
        let contents = try await DocumentDisk.read(url, of: disk.place)
        try requireNothingTyped()
        try load(fromContents: contents, ofType: fileType)
    }

    /// Writes a snapshot, inside a coordinated write. A file is first written beside the document, by
    /// `writeContents(_:to:for:originalContentsURL:)`, and then takes its place. Override it to write files that each
    /// save makes anew, such as previews, beside the document or in its package.
    ///
    /// - Parameter contents: The snapshot.
    /// - Parameter url: The URL to write to.
    /// - Parameter operation: Whether the save creates the file.
    /// - Throws: `UbiquitousFileError`.
    open func writeContents(_ contents: Contents, safelyTo url: URL, for operation: SaveOperation) async throws {
        guard case .data = contents else {
            return try await writeContents(contents, to: url, for: operation, originalContentsURL: url)
        }
        let staged = URL(filePath: SafeFile.temporaryName(beside: url.systemPath), directoryHint: .notDirectory)
        let hasOriginal = try await DocumentDisk.stamp(of: url) != nil
        do {
            try await writeContents(
                contents, to: staged, for: operation, originalContentsURL: hasOriginal ? url : nil)
            try await DocumentDisk.publish(staged, at: url, format)
        } catch {
            await DocumentDisk.discard(staged)
            throw error
        }
    }

    /// Writes a snapshot to a place, not safely by itself. Override it to write a format that `contents(forType:)`
    /// cannot give as one block of memory, for example to copy the unchanged parts of the original.
    ///
    /// - Parameter contents: The snapshot.
    /// - Parameter url: The URL to write to: a new file beside the document. For a package it is the package itself,
    ///   whose changed members are each written safely.
    /// - Parameter operation: Whether the save creates the file.
    /// - Parameter originalContentsURL: The document before this save; nil if there is none.
    /// - Throws: `UbiquitousFileError`.
    open func writeContents(
        _ contents: Contents, to url: URL, for operation: SaveOperation, originalContentsURL: URL?
    ) async throws {
        switch contents {
        case .data(let data): try await DocumentDisk.write(data, to: url)
        case .package(let package): try await DocumentDisk.write(package, to: url, of: disk.place, format)
        }
    }

    /// Returns a small preview of the document, such as a picture of its first page; nil, the default, for none. After
    /// each successful save the document writes it to `DocumentPreview.url(for:)`, from where other devices fetch it
    /// before the document. A preview that cannot be written does not fail the save.
    ///
    /// - Throws: An error if no preview can be made now. The old one stays.
    open func previewContents() throws -> Data? { nil }

    /// Runs `access` when no save or other access of this document runs. Use it for files that belong to the document,
    /// so that a save does not change them meanwhile. Do not save the document in it.
    ///
    /// - Parameter access: Uses the files.
    /// - Throws: The error of `access`.
    public func performAsynchronousFileAccess(
        _ access: @escaping @MainActor @Sendable () async throws -> Void
    ) async throws {
        try await saves.run(access)
    }

    /// Handles a failure. Return true if the obstacle is removed: the operation is then tried again. For
    /// `.fileChangedByOther`, true overwrites the other program's change. By default the `recoveryAttempter` decides.
    ///
    /// - Parameter error: The failure.
    /// - Parameter userInteractionPermitted: False while the document is being closed; do not ask the user then.
    open func handleError(_ error: any Error, userInteractionPermitted: Bool) async -> Bool {
        guard let recoveryAttempter else { return false }
        let option = await recoveryAttempter.recoveryOption(
            for: error, options: DocumentRecoveryOption.options(for: error), of: self,
            userInteractionPermitted: userInteractionPermitted)
        return await recover(by: option)
    }

    /// A failure has been handled. The default does nothing.
    ///
    /// - Parameter error: The failure.
    /// - Parameter recovered: Whether the operation is tried again or the failure is settled in another way.
    open func finishedHandlingError(_ error: any Error, recovered: Bool) {}

    /// The document is being closed while `handleError` still asks the user about a failure. Dismiss the question. The
    /// default does nothing.
    ///
    /// - Parameter error: The failure that is being handled.
    open func userInteractionNoLongerPermitted(forError error: any Error) {}

    /// The user should not type until `enableEditing`.
    open func disableEditing() {}
    /// The user can type again.
    open func enableEditing() {}

    /// Called when another program has moved or renamed the file; `fileURL` is the new place.
    ///
    /// - Parameter url: The new URL.
    open func fileDidMove(to url: URL) {}

    /// Called when somebody has signed in or out and the document's account is no longer shown. A document without
    /// unsaved changes is closed afterwards. Another one keeps them in memory until its account is back.
    open func accountDidLeave() {}

    // MARK: Changes

    /// Whether a change is not saved yet.
    public var hasUnsavedChanges: Bool { changes.isUnsaved }

    /// Reports a change. Call it for each one; the first unsaved change starts the autosave delay.
    ///
    /// - Parameter change: The kind of the change.
    public func updateChangeCount(_ change: ChangeKind) {
        changes.note(change)
        if hasUnsavedChanges { scheduleAutosave() } else { saves.timer.cancel() }
    }

    /// Returns a token for the changes so far.
    ///
    /// - Parameter operation: The operation of the save that will contain them.
    public func changeCountToken(for operation: SaveOperation) -> ChangeCountToken {
        ChangeCountToken(count: changes.count)
    }

    /// Marks the changes up to the token as saved.
    ///
    /// - Parameter token: The token of the saved snapshot.
    /// - Parameter operation: The operation of the save.
    public func updateChangeCount(withToken token: ChangeCountToken, for operation: SaveOperation) {
        changes.noteSaved(token.count)
        if !hasUnsavedChanges { saves.timer.cancel() }
    }
}
