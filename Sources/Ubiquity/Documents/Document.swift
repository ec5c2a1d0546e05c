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
    public internal(set) var fileURL: URL { didSet { place.move(to: fileURL.systemPath) } }
    /// The file's modification date when it was last read or written.
    public var fileModificationDate: Date? { known?.modificationDate }
    /// The current state.
    public internal(set) var documentState: State = .closed {
        didSet {
            guard documentState != oldValue else { return }
            for listener in listeners.values { listener.yield(documentState) }
        }
    }
    /// The last failure; nil after the next success.
    public internal(set) var lastError: (any Error)?
    /// How long a change waits at most before the document saves itself.
    public var autosaveDelay: Duration = .seconds(10)

    // Internal state: the document's place, its saves and its presenter.
    let place: DocumentPlace
    var known: DocumentStamp?
    var container: String?
    /// The document's account while it is presented.
    var identity: UbiquityIdentityToken??
    var isPresenting = false
    var isRelinquishedToWriter = false
    var isClosing = false
    var hasChangedMeanwhile = false
    /// A deletion was announced. Its outcome shows afterwards.
    var awaitsDeletion = false
    /// The announced deletion also removes the changes that were unsaved then.
    var deletionTakesChanges = false
    /// The file was deleted while changes were unsaved. The document stays open until they are saved or discarded.
    var isDeleted = false
    /// The running check for announced changes, and whether more were announced since it began.
    var changeLook: Task<Void, Never>?
    var hasMoreChanges = false
    var changes = ChangeCount()
    var opening: Task<Void, any Error>?
    /// The last save that was begun. Each save waits for the one before.
    var currentSave: Task<Void, any Error>?
    var autosaveTask: Task<Void, Never>?
    var returnTask: Task<Void, Never>?
    private var listeners: [Int: AsyncStream<State>.Continuation] = [:]
    private var nextListener = 0

    /// Makes a closed document for a file, which need not exist yet.
    ///
    /// - Parameter fileURL: The URL of the file.
    public init(fileURL: URL) {
        self.fileURL = fileURL
        place = DocumentPlace(fileURL.systemPath)
    }

    /// The name shown to people: the file name without its extension.
    public var localizedName: String { fileURL.deletingPathExtension().lastPathComponent }
    /// The file's extension; nil if it has none.
    open var fileType: String? { fileURL.pathExtension.isEmpty ? nil : fileURL.pathExtension }
    /// The extension for the next save; `fileType` by default.
    open var savingFileType: String? { fileType }

    /// The current state, followed by every later state.
    public var states: AsyncStream<State> {
        let (stream, listener) = AsyncStream.makeStream(of: State.self)
        let number = nextListener
        nextListener += 1
        listeners[number] = listener
        listener.yield(documentState)
        listener.onTermination = { [weak self] _ in Task { @MainActor in self?.listeners[number] = nil } }
        return stream
    }

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

    /// Reads the document, inside a coordinated read.
    ///
    /// - Parameter url: The URL of the file.
    /// - Throws: `UbiquitousFileError`, or the error of `load(fromContents:ofType:)`.
    open func read(from url: URL) async throws {
        let contents = try await DocumentDisk.read(url, of: place)
        try requireNothingTyped()
        try load(fromContents: contents, ofType: fileType)
    }

    /// Writes a snapshot, inside a coordinated write: first to a temporary file, then in place. Override it to write
    /// files that each save makes anew, such as previews, beside the document or in its package.
    ///
    /// - Parameter contents: The snapshot.
    /// - Parameter url: The URL to write to.
    /// - Parameter operation: Whether the save creates the file.
    /// - Throws: `UbiquitousFileError`.
    open func writeContents(_ contents: Contents, safelyTo url: URL, for operation: SaveOperation) async throws {
        try await DocumentDisk.write(contents, to: url, of: place)
    }

    /// Handles a failure. Return true if the obstacle is removed: the operation is then tried again. For
    /// `.fileChangedByOther`, true overwrites the other program's change.
    ///
    /// - Parameter error: The failure.
    /// - Parameter userInteractionPermitted: False while the document is being closed; do not ask the user then.
    open func handleError(_ error: any Error, userInteractionPermitted: Bool) async -> Bool { false }

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
        if hasUnsavedChanges { scheduleAutosave() } else { cancelAutosave() }
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
        if !hasUnsavedChanges { cancelAutosave() }
    }

    // MARK: Presenting (the other calls are in the extension)

    public var presentedItemURL: URL { fileURL }
}

/// Counts the changes made and remembers which count is on disk.
struct ChangeCount {
    private(set) var count = 0
    /// Nil if undoing can no longer reach the saved state.
    private var saved: Int? = 0

    var isUnsaved: Bool { saved != count }

    mutating func note(_ change: Document.ChangeKind) {
        switch change {
        case .done:
            // A new change discards the undone changes, and the saved state with them.
            if let saved, count < saved { self.saved = nil }
            count += 1
        case .redone: count += 1
        case .undone: count -= 1
        case .cleared: saved = count
        }
    }

    /// The saved state no longer exists on disk.
    mutating func noteLost() { saved = nil }

    mutating func noteSaved(_ count: Int) { saved = count }
}
