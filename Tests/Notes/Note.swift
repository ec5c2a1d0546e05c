import FoundationEssentials
import Ubiquity

/// A note: lines in a text file, or in a package (`NAME.textbundle`) that also has a preview, so that a list of notes
/// downloads nothing else.
@MainActor
final class Note: Document {
    nonisolated static let textName = "text.md"
    nonisolated static let previewName = "preview.txt"

    private(set) var lines: [String] = []
    private var package: FileWrapper?
    private let tell: @Sendable (String) -> Void

    init(at url: URL, tell: @escaping @Sendable (String) -> Void = { _ in }) {
        self.tell = tell
        super.init(fileURL: url)
    }

    func add(_ line: String) {
        lines.append(line)
        updateChangeCount(.done)
    }

    // MARK: Reading and writing

    override func load(fromContents contents: Contents, ofType type: String?) throws {
        switch contents {
        case .data(let data): lines = Self.lines(of: data)
        case .package(let wrapper): package = wrapper
        }
    }

    override func read(from url: URL) async throws {
        let isFirst = documentState.contains(.closed)
        try await super.read(from: url)
        // Only the text of a package is read; pictures and other members stay unread.
        if let text = package?.fileWrappers?[Self.textName] { lines = Self.lines(of: try await text.regularFileContents()) }
        if !isFirst { tell("changed: \(lines.last ?? "")") }
    }

    override func contents(forType type: String?) throws -> Contents {
        let text = Data(lines.map { "\($0)\n" }.joined().utf8)
        if package == nil, type == "textbundle" { package = FileWrapper(directoryWithFileWrappers: [:]) }
        guard let package else { return .data(text) }
        // Unchanged members are not written again.
        package.setRegularFile(withContents: text, named: Self.textName)
        package.setRegularFile(withContents: Data((lines.first ?? "").utf8), named: Self.previewName)
        return .package(package)
    }

    override func writeContents(_ contents: Contents, safelyTo url: URL, for operation: SaveOperation) async throws {
        try await super.writeContents(contents, safelyTo: url, for: operation)
        tell("saved")
    }

    private static func lines(of data: Data) -> [String] {
        String(decoding: data, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
            .dropLast(where: \.isEmpty)
    }

    // MARK: Events

    private var hasLeftAccount = false

    override func accountDidLeave() {
        hasLeftAccount = true
        tell("signed out: sign in again to open the note")
    }

    override func fileDidMove(to url: URL) { tell("moved to \(url.lastPathComponent)") }

    override func handleError(_ error: any Error, userInteractionPermitted: Bool) async -> Bool {
        if (error as? UbiquitousFileError)?.code == .ubiquitousFileUbiquityServerNotAvailable {
            // Signed out, or unmounted: the document saves itself when its container is mounted again.
            tell("away: typed text is kept")
        } else {
            tell("failed: \(error)")
        }
        return false
    }

    /// Prints state changes until the note is closed.
    func watch() async {
        var before = State.normal
        for await state in states {
            if state.contains(.inConflict), !before.contains(.inConflict) { tell("in conflict; ':merge' resolves it") }
            // A closed note has no conflict state.
            if !state.contains(.inConflict), !state.contains(.closed), before.contains(.inConflict) {
                tell("conflict resolved")
            }
            if state == .normal, before.contains(.editingDisabled) { tell("ready") }
            if state.contains(.closed), !before.contains(.closed) { tell(isBeingClosed || hasLeftAccount ? "closed" : "deleted") }
            before = state
        }
    }

    private var isBeingClosed = false

    func finish() async throws {
        isBeingClosed = true
        try await close()
    }

    // MARK: Conflicts

    /// Adds the lines of conflict versions that this note lacks, and resolves the conflicts for all devices. This may
    /// be done at any later time: until then the newest text is shown, and the others are kept.
    func merge() async throws {
        let others = try await FileCoordinator(filePresenter: self).coordinate(readingItemAt: fileURL) { url in
            var others: [(version: FileVersion, lines: [String])] = []
            for version in try await FileVersion.unresolvedConflictVersionsOfItem(at: url) {
                let wrapper = try await version.fileWrapper()
                let text = wrapper.isDirectory ? wrapper.fileWrappers?[Self.textName] : wrapper
                others.append((version, Self.lines(of: try await text?.regularFileContents() ?? Data())))
            }
            return others
        }
        for line in others.flatMap(\.lines) where !lines.contains(line) { add(line) }
        try await autosave()
        // The conflicts are resolved after the merged text is on the disk, so an earlier failure loses nothing.
        try await FileCoordinator(filePresenter: self).coordinate(writingItemAt: fileURL) { _ in
            for other in others { try await other.version.setResolved() }
        }
        await lookForConflicts()
    }
}

extension [String] {
    /// Drops the last element if the condition holds for it.
    fileprivate func dropLast(where condition: (String) -> Bool) -> [String] {
        last.map(condition) == true ? Array(dropLast()) : self
    }
}
