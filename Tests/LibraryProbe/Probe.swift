import FoundationEssentials
import Glibc
import Ubiquity

/// A program for tests. It executes commands from its standard input with the library, one per line, and prints their
/// results and the events in between.
@main
struct Probe {
    @MainActor static func main() async {
        let arguments = CommandLine.arguments
        let folder = URL(filePath: arguments.count > 1 ? arguments[1] : ".")
        let session = Session(folder: folder)
        let lines = AsyncStream<String> { typed in
            let thread = Thread(typed)
            thread.start()
        }
        say("ready")
        for await line in lines {
            let words = line.split(separator: " ").map(String.init)
            do {
                try await session.perform(words)
                say("ok \(line)")
            } catch {
                say("failed \(line): \(error)")
            }
        }
    }

    /// One write for each line, so that lines of several tasks do not mix.
    nonisolated static func say(_ text: String) {
        var line = text + "\n"
        line.withUTF8 { bytes in _ = write(1, bytes.baseAddress, bytes.count) }
    }

    /// Reads lines on a thread that may block.
    private final class Thread: Sendable {
        let typed: AsyncStream<String>.Continuation
        init(_ typed: AsyncStream<String>.Continuation) { self.typed = typed }

        func start() {
            var thread = pthread_t()
            pthread_create(&thread, nil, Self.read, Unmanaged.passRetained(self).toOpaque())
            pthread_detach(thread)
        }

        private static let read: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { argument in
            guard let argument else { return nil }
            let thread = Unmanaged<Thread>.fromOpaque(argument).takeRetainedValue()
            while let line = readLine() { thread.typed.yield(line) }
            thread.typed.finish()
            return nil
        }
    }
}

/// The objects that the commands refer to: presenters, versions, and one document.
@MainActor
final class Session {
    private let folder: URL
    private var watchers: [String: Watcher] = [:]
    private var document: TestDocument?
    private var watching: Task<Void, Never>?

    init(folder: URL) { self.folder = folder }

    private func url(_ path: String) -> URL { folder.appending(path: path, directoryHint: .notDirectory) }

    func perform(_ words: [String]) async throws {
        let path = words.count > 1 ? words[1] : ""
        switch words.first {
        case "watch":
            let watcher = Watcher(path.isEmpty ? folder : url(path))
            try await FileCoordinator.addFilePresenter(watcher)
            watchers[path] = watcher
        case "unwatch":
            if let watcher = watchers.removeValue(forKey: path) { await FileCoordinator.removeFilePresenter(watcher) }
        case "versions": try await list(url(path))
        case "resolve": try await resolve(url(path))
        case "restore": try await restore(url(path), to: url(words[2]))
        case "clear":
            try await FileCoordinator().coordinate(writingItemAt: url(path)) {
                try await FileVersion.removeOtherVersionsOfItem(at: $0)
            }
        case "open": try await open(path)
        default: try await performOnFile(words, path)
        }
    }

    private func performOnFile(_ words: [String], _ path: String) async throws {
        let files = UbiquityFileManager.default
        switch words.first {
        case "add-version":
            let version = try await FileVersion.addVersionOfItem(
                at: url(path), withContentsOf: url(path), origin: .manual, isDiscardable: true)
            Probe.say("added \(version.origin?.rawValue ?? "") \(version.hasLocalContents) \(version.isDiscardable)")
        case "upload-copy":
            try await FileCoordinator().coordinate(readingItemAt: url(path), options: .forUploading) { copy in
                try await FileCoordinator().coordinate(writingItemAt: url(path)) { _ in
                    Probe.say("copy \(copy.lastPathComponent) \(try Data(contentsOf: copy).count > 0)")
                }
            }
        case "move-out":
            try await files.setUbiquitous(false, itemAt: url(path), destinationURL: URL(filePath: words[2]))
        case "pause": try await files.pauseSyncForUbiquitousItem(at: url(path))
        case "resume": try await files.resumeSyncForUbiquitousItem(at: url(path))
        case "fetch":
            let version = try await files.fetchLatestRemoteVersionOfItem(at: url(path))
            let text = String(decoding: try await version.contents(), as: UTF8.self).split(separator: "\n").joined()
            Probe.say("fetched \(text)")
        case "exclude":
            var values = UbiquitousItemResourceValues()
            values.ubiquitousItemIsExcludedFromSync = words[2] == "yes"
            try await UbiquitousItem(at: url(path)).setResourceValues(values)
        default: try await performOnDocument(words)
        }
    }

    // MARK: Versions

    private func list(_ url: URL) async throws {
        let (current, others) = try await FileCoordinator().coordinate(readingItemAt: url) { url in
            (try await FileVersion.currentVersionOfItem(at: url), try await FileVersion.otherVersionsOfItem(at: url))
        }
        for version in [current].compactMap({ $0 }) + others {
            let kind = version.isCurrent ? "current" : version.isConflict ? "conflict" : "earlier"
            let text = String(decoding: try await version.contents(), as: UTF8.self).split(separator: "\n").joined(separator: "|")
            let same = try await FileVersion.version(ofItemAt: url, forPersistentIdentifier: version.id)
            Probe.say(
                "version \(kind) \(version.localizedName) \(version.localizedNameOfSavingComputer) "
                    + "\(version.isResolved) \(same == version) \(version.modificationDate.timeIntervalSince1970 > 0) \(text)")
        }
        Probe.say("nonlocal \(try await FileVersion.nonlocalVersionsOfItem(at: url).count)")
    }

    private func resolve(_ url: URL) async throws {
        try await FileCoordinator().coordinate(writingItemAt: url) { url in
            for version in try await FileVersion.unresolvedConflictVersionsOfItem(at: url) {
                try await version.setResolved()
                Probe.say("resolved \(version.isResolved)")
            }
        }
    }

    /// Copies the first conflict's content to a place.
    private func restore(_ url: URL, to target: URL) async throws {
        try await FileCoordinator().coordinate(readingItemAt: url, writingItemAt: target) { url, target in
            let version = try await FileVersion.unresolvedConflictVersionsOfItem(at: url).first
            try await version?.replaceItem(at: target)
        }
    }

    // MARK: The document

    private func open(_ path: String) async throws {
        let document = TestDocument(fileURL: url(path))
        self.document = document
        watching = Task {
            for await state in document.states { Probe.say("state \(TestDocument.names(state))") }
        }
        try await document.open()
        Probe.say("text \(document.text)")
    }

    private func performOnDocument(_ words: [String]) async throws {
        guard let document else { return }
        let rest = words.dropFirst().joined(separator: " ")
        switch words.first {
        case "type": document.type(rest)
        case "type-into": document.type(words.dropFirst(2).joined(separator: " "), into: words[1])
        case "delay": document.autosaveDelay = .milliseconds(Int(words[1]) ?? 0)
        case "recover": document.recovers = true
        case "save": try await document.autosave()
        case "create": try await document.save(to: url(rest), for: .forCreating)
        case "revert": try await document.revert(toContentsOf: rest.isEmpty ? document.fileURL : url(rest))
        case "close": try await document.close()
        case "show":
            Probe.say("text \(document.text)")
            Probe.say("unsaved \(document.hasUnsavedChanges) at \(document.fileURL.lastPathComponent)")
        default: Probe.say("unknown \(words)")
        }
    }
}

/// A text, or a package of texts.
@MainActor
final class TestDocument: Document {
    private(set) var text = ""
    private var package: FileWrapper?
    var recovers = false

    func type(_ line: String) {
        text += text.isEmpty ? line : "|\(line)"
        updateChangeCount(.done)
    }

    func type(_ text: String, into name: String) {
        package?.setRegularFile(withContents: Data(text.utf8), named: name)
        updateChangeCount(.done)
    }

    override func load(fromContents contents: Contents, ofType type: String?) throws {
        switch contents {
        case .data(let data):
            text = String(decoding: data, as: UTF8.self).split(separator: "\n").joined(separator: "|")
            package = nil
        case .package(let wrapper):
            package = wrapper
            text = (wrapper.fileWrappers ?? [:]).keys.sorted().joined(separator: "|")
        }
        Probe.say("loaded \(text)")
    }

    override func contents(forType type: String?) throws -> Contents {
        package.map { .package($0) } ?? .data(Data(text.split(separator: "|").map { "\($0)\n" }.joined().utf8))
    }

    override func handleError(_ error: any Error, userInteractionPermitted: Bool) async -> Bool {
        let code = (error as? UbiquitousFileError).map { "\($0.code)" } ?? "\(error)"
        Probe.say("error \(code) interaction \(userInteractionPermitted)")
        return recovers
    }

    static func names(_ state: State) -> String {
        let all: [(State, String)] = [
            (.closed, "closed"), (.inConflict, "inConflict"), (.savingError, "savingError"),
            (.editingDisabled, "editingDisabled"), (.progressAvailable, "progressAvailable"),
        ]
        let names = all.filter { state.contains($0.0) }.map(\.1)
        return names.isEmpty ? "normal" : names.joined(separator: " ")
    }
}

/// Prints the questions and notifications that it gets.
final class Watcher: FilePresenter {
    let presentedItemURL: URL

    init(_ url: URL) { presentedItemURL = url }

    func relinquishPresentedItemToReader() async throws { Probe.say("relinquish to reader") }
    func relinquishPresentedItemToWriter() async throws { Probe.say("relinquish to writer") }
    func reacquirePresentedItem() async { Probe.say("reacquire") }
    func savePresentedItemChanges() async throws { Probe.say("save") }
    func accommodatePresentedItemDeletion() async throws { Probe.say("accommodate deletion") }
    func accommodatePresentedSubitemDeletion(at url: URL) async throws { Probe.say("accommodate deletion of \(name(url))") }
    func presentedItemDidMove(to url: URL) async { Probe.say("moved to \(name(url))") }
    func presentedItemDidChange() async { Probe.say("changed") }
    func presentedItemDidChangeUbiquityAttributes(_ attributes: Set<UbiquitousItem.Key>) async {
        Probe.say(attributes.isEmpty ? "no attributes" : "attributes")
    }
    func presentedSubitemDidChange(at url: URL) async { Probe.say("subitem changed \(name(url))") }
    func presentedSubitem(at oldURL: URL, didMoveTo url: URL) async { Probe.say("subitem moved \(name(oldURL)) \(name(url))") }
    func presentedItemDidGainVersion(_ identifier: String?, isConflict: Bool) async {
        Probe.say("gained \(isConflict) \(identifier == nil ? "unnamed" : "named")")
    }
    func presentedItemDidLoseVersion(_ identifier: String?) async {
        Probe.say("lost \(identifier == nil ? "unnamed" : "named")")
    }
    func presentedSubitemDidLoseVersion(at url: URL, identifier: String?) async { Probe.say("subitem lost \(name(url))") }
    func presentedItemDidResolveConflictVersion(_ identifier: String?) async {
        Probe.say("resolved conflict \(identifier == nil ? "unnamed" : "named")")
    }
    func presentedSubitemDidGainVersion(at url: URL, identifier: String?, isConflict: Bool) async {
        Probe.say("subitem gained \(isConflict) \(name(url))")
    }
    func presentedSubitemDidResolveConflictVersion(at url: URL, identifier: String?) async {
        Probe.say("subitem resolved conflict \(name(url))")
    }

    private func name(_ url: URL) -> String { url.lastPathComponent }
}
