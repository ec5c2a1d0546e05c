public import FoundationEssentials

/// A document that is open in a program: read, saved by itself, kept in step with what other programs and devices do to
/// it.
///
/// Make a class of your own and override `load(fromContents:ofType:)` and `contents(forType:)`; tell of each change by
/// `updateChangeCount`. Then the document saves itself a while after the first change that is not saved, when it is
/// closed, and whenever another program or a change from another device needs it on the disk. It is a presenter from
/// `open` to `close`, follows its file when that is moved, takes in what others change, and closes when it is deleted.
///
/// Close every document that was opened: one that stays open is asked, and holds others up.
///
/// Saving works on a snapshot: the program, and whoever types, go on meanwhile. A save that fails is told to
/// `handleError`, shows in `documentState`, and is tried again by the next one; nothing that was typed is given up.
@MainActor
open class Document: FilePresenter {
    /// A document on the disk.
    public enum Contents: Sendable {
        /// A file.
        case data(Data)
        /// A folder that is one document.
        case package(FileWrapper)
    }

    public struct State: OptionSet, Hashable, Sendable {
        public let rawValue: Int
        nonisolated public init(rawValue: Int) { self.rawValue = rawValue }
        /// Open, and all is well.
        nonisolated public static let normal: State = []
        nonisolated public static let closed = State(rawValue: 1)
        /// Another version of the file waits for a decision: see `FileVersion`.
        nonisolated public static let inConflict = State(rawValue: 2)
        /// The last save failed.
        nonisolated public static let savingError = State(rawValue: 4)
        /// Nothing should be typed now: it is being changed by another, or cannot be saved.
        nonisolated public static let editingDisabled = State(rawValue: 8)
        /// It is being read, which may be a download.
        nonisolated public static let progressAvailable = State(rawValue: 16)
    }

    public enum ChangeKind: Sendable { case done, undone, redone, cleared }
    public enum SaveOperation: Sendable { case forCreating, forOverwriting }

    /// Which changes a snapshot has in it.
    public struct ChangeCountToken: Hashable, Sendable { let count: Int }

    public internal(set) var fileURL: URL { didSet { place.move(to: fileURL.systemPath) } }
    /// Of the file as it was last read or written.
    public var fileModificationDate: Date? { known?.modificationDate }
    public internal(set) var documentState: State = .closed {
        didSet {
            guard documentState != oldValue else { return }
            for listener in listeners.values { listener.yield(documentState) }
        }
    }
    /// What went wrong last; nil after the next success.
    public internal(set) var lastError: (any Error)?
    /// How long a change waits at most before it is saved by itself.
    public var autosaveDelay: Duration = .seconds(10)

    // What it holds of its place, its saves and its presenter's life.
    let place: DocumentPlace
    var known: DocumentStamp?
    var container: String?
    var isPresenting = false
    var isRelinquishedToWriter = false
    var isClosing = false
    var hasChangedMeanwhile = false
    /// It was asked to accommodate a deletion: what became of that shows afterwards.
    var awaitsDeletion = false
    /// Such a deletion takes what was not saved when it was announced.
    var deletionTakesChanges = false
    /// Its file was deleted with what it had to save; it stays open until that is somewhere, or given up.
    var isDeleted = false
    /// A look at what was told to have changed, and whether more was told since it began.
    var changeLook: Task<Void, Never>?
    var hasMoreChanges = false
    var changes = ChangeCount()
    var opening: Task<Void, any Error>?
    /// The last save that was begun; each waits for the one before.
    var currentSave: Task<Void, any Error>?
    var autosaveTask: Task<Void, Never>?
    var returnTask: Task<Void, Never>?
    private var listeners: [Int: AsyncStream<State>.Continuation] = [:]
    private var nextListener = 0

    public init(fileURL: URL) {
        self.fileURL = fileURL
        place = DocumentPlace(fileURL.systemPath)
    }

    /// The name that people see: the file's, without its extension.
    public var localizedName: String { fileURL.deletingPathExtension().lastPathComponent }
    /// By the file's extension.
    open var fileType: String? { fileURL.pathExtension.isEmpty ? nil : fileURL.pathExtension }
    open var savingFileType: String? { fileType }

    /// The state now, and then each that it changes to.
    public var states: AsyncStream<State> {
        let (stream, listener) = AsyncStream.makeStream(of: State.self)
        let number = nextListener
        nextListener += 1
        listeners[number] = listener
        listener.yield(documentState)
        listener.onTermination = { [weak self] _ in Task { @MainActor in self?.listeners[number] = nil } }
        return stream
    }

    // MARK: What a program overrides

    /// Takes in what was read: at first, and when another has changed it.
    open func load(fromContents contents: Contents, ofType type: String?) throws {
        throw UbiquitousFileError(.featureUnsupported, "the document's class reads nothing")
    }

    /// What is to be saved. A package keeps the wrappers of members that have not changed: they are not written again.
    open func contents(forType type: String?) throws -> Contents {
        throw UbiquitousFileError(.featureUnsupported, "the document's class writes nothing")
    }

    /// Reads the document, inside a coordinated read.
    open func read(from url: URL) async throws {
        let contents = try await DocumentDisk.read(url, of: place)
        try requireNothingTyped()
        try load(fromContents: contents, ofType: fileType)
    }

    /// Writes a snapshot, inside a coordinated write, aside and then in place. The place for files beside the document,
    /// or in its package, that are made anew with each save, such as previews.
    open func writeContents(_ contents: Contents, safelyTo url: URL, for operation: SaveOperation) async throws {
        try await DocumentDisk.write(contents, to: url, of: place)
    }

    /// Told of everything that fails. Return true if what was in the way is out of it: then it is tried again. For
    /// `.fileChangedByOther` that means that the other's change is to be overwritten.
    /// - Parameter userInteractionPermitted: false while the document is being closed: then nobody is to be asked.
    open func handleError(_ error: any Error, userInteractionPermitted: Bool) async -> Bool { false }

    /// Nothing should be typed until `enableEditing`.
    open func disableEditing() {}
    open func enableEditing() {}

    /// Told when another has moved the file, or given it another name; `fileURL` is the new place.
    open func fileDidMove(to url: URL) {}

    // MARK: Changes

    public var hasUnsavedChanges: Bool { changes.isUnsaved }

    /// To be told of each change; the first one that is not saved starts the time until it saves itself.
    public func updateChangeCount(_ change: ChangeKind) {
        changes.note(change)
        if hasUnsavedChanges { scheduleAutosave() } else { cancelAutosave() }
    }

    public func changeCountToken(for operation: SaveOperation) -> ChangeCountToken {
        ChangeCountToken(count: changes.count)
    }

    /// What had been changed when the token was made is saved.
    public func updateChangeCount(withToken token: ChangeCountToken, for operation: SaveOperation) {
        changes.noteSaved(token.count)
        if !hasUnsavedChanges { cancelAutosave() }
    }

    // MARK: Presenting (what is asked and told stands in the extension)

    public var presentedItemURL: URL { fileURL }
}

/// Changes that were made, and which of them are on the disk.
struct ChangeCount {
    private(set) var count = 0
    /// Nil if what is on the disk cannot be had again by undoing.
    private var saved: Int? = 0

    var isUnsaved: Bool { saved != count }

    mutating func note(_ change: Document.ChangeKind) {
        switch change {
        case .done:
            // What was undone is given up by a new change, and the saved state with it.
            if let saved, count < saved { self.saved = nil }
            count += 1
        case .redone: count += 1
        case .undone: count -= 1
        case .cleared: saved = count
        }
    }

    /// What was saved is not there any more.
    mutating func noteLost() { saved = nil }

    mutating func noteSaved(_ count: Int) { saved = count }
}
