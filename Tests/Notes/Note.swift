import FoundationEssentials
import Synchronization
import Ubiquity

/// A note that is being edited: what was typed is not on the disk until it is saved, by itself or because somebody
/// asks.
final class Note: FilePresenter {
    private struct State {
        var url: URL
        /// The text as the editor shows it; nil until it is read.
        var text: String?
        var hasUnsavedChanges = false
        var isDeleted = false
    }

    private let state: Mutex<State>
    private let tell: @Sendable (String) -> Void

    init(at url: URL, tell: @escaping @Sendable (String) -> Void) {
        state = Mutex(State(url: url))
        self.tell = tell
    }

    var presentedItemURL: URL { state.withLock { $0.url } }

    /// Reads the note, and takes part in what happens to it from then on: registered inside the read, no change between
    /// the two is missed.
    func open() async throws {
        let url = presentedItemURL
        try await FileCoordinator(filePresenter: self).coordinate(readingItemAt: url) { url in
            let text = try String(contentsOf: url, encoding: .utf8)
            state.withLock { $0.text = text }
            try await FileCoordinator.addFilePresenter(self)
        }
    }

    func add(_ line: String) {
        state.withLock {
            $0.text = ($0.text ?? "") + line + "\n"
            $0.hasUnsavedChanges = true
        }
    }

    func save() async throws {
        guard let (url, text) = takeUnsaved() else { return }
        do {
            try await FileCoordinator(filePresenter: self).coordinate(writingItemAt: url) { url in
                try Data(text.utf8).write(to: url)
            }
            tell("saved")
        } catch {
            state.withLock { $0.hasUnsavedChanges = true }
            throw error
        }
    }

    private func takeUnsaved() -> (URL, String)? {
        state.withLock { state in
            guard state.hasUnsavedChanges, !state.isDeleted, let text = state.text else { return nil }
            state.hasUnsavedChanges = false
            return (state.url, text)
        }
    }

    func close() async throws {
        try await save()
        await FileCoordinator.removeFilePresenter(self)
    }

    // MARK: Presenting

    func savePresentedItemChanges() async throws {
        tell("asked to save")
        try await save()
    }

    func accommodatePresentedItemDeletion() async throws {
        state.withLock { $0.isDeleted = true }
        tell("deleted")
    }

    func presentedItemDidMove(to url: URL) async {
        state.withLock { $0.url = url }
        tell("moved to \(url.lastPathComponent)")
    }

    func presentedItemDidChange() async {
        guard state.withLock({ !$0.hasUnsavedChanges && !$0.isDeleted }) else { return }
        do {
            let text = try await FileCoordinator(filePresenter: self).coordinate(
                readingItemAt: presentedItemURL, options: .withoutChanges
            ) { try String(contentsOf: $0, encoding: .utf8) }
            state.withLock { $0.text = text }
            tell("changed: \(text.split(separator: "\n").last ?? "")")
        } catch {
            tell("cannot read it: \(error)")
        }
    }

    func presentedItemDidGainVersion(_ identifier: String?, isConflict: Bool) async {
        if isConflict { tell("in conflict") }
    }

    func presentedItemDidResolveConflictVersion(_ identifier: String?) async { tell("conflict resolved") }

    func presentationDidEnd() async { tell("the mount has ended") }
}
