import FoundationEssentials
import Ubiquity

/// The example: a notes program for the terminal.
///
/// `notes list FOLDER…` shows notes with their first lines; of notes in packages it downloads only the previews. `notes
/// show FILE` prints a note, with unsaved text of other programs. `notes edit FILE` appends each typed line, and
/// creates the note if it is absent. It saves automatically, and immediately when another program or a remote change
/// needs the text on the disk. `:merge` adds the lines that other devices wrote at the same time.
@main
struct Notes {
    @MainActor
    static func main() async {
        let arguments = CommandLine.arguments.dropFirst()
        let commands: [String: @MainActor (URL) async throws -> Void] = ["list": list, "show": show, "edit": edit]
        guard let name = arguments.first, let command = commands[name], arguments.count > 1 else {
            print("usage: notes list|show|edit FILE…")
            Output.end(2)
        }
        var hasFailed = false
        for path in arguments.dropFirst() {
            do { try await command(URL(filePath: path)) } catch {
                tell("notes: \(error)")
                hasFailed = true
            }
        }
        if hasFailed { Output.end(1) }
    }

    /// Names and first lines. A conflict is shown as a mark.
    @MainActor static func list(_ folder: URL) async throws {
        guard let notes = try await FileWrapper(url: folder).fileWrappers else { return }
        for (name, wrapper) in notes.sorted(by: { $0.key < $1.key }) where !name.hasPrefix(".") {
            let preview = wrapper.isDirectory ? wrapper.fileWrappers?[Note.previewName] : wrapper
            guard let preview, preview.isRegularFile else { continue }
            let text = String(decoding: try await preview.regularFileContents(), as: UTF8.self)
            let url = folder.appending(path: name, directoryHint: .notDirectory)
            let conflicts = try await FileVersion.unresolvedConflictVersionsOfItem(at: url).count
            tell("\(conflicts > 0 ? "!" : " ") \(name): \(text.split(separator: "\n").first ?? "")")
        }
    }

    @MainActor static func show(_ url: URL) async throws {
        let note = Note(at: url)
        try await note.open()
        for line in note.lines { tell(line) }
        try await note.finish()
    }

    @MainActor static func edit(_ url: URL) async throws {
        let note = Note(at: url) { tell($0) }
        if FileManager.default.fileExists(atPath: url.path) {
            try await note.open()
        } else {
            try await note.save(to: url, for: .forCreating)
        }
        let watching = Task { await note.watch() }
        tell("open")
        // A thread of its own waits for typed lines, so tasks continue meanwhile.
        let lines = AsyncStream<String> { typed in
            Typing.start { line in if let line { typed.yield(line) } else { typed.finish() } }
        }
        for await line in lines {
            if note.documentState.contains(.closed) {
                // Signed out, or deleted: a typed line would belong to no note.
                tell("not added: the note is closed")
            } else if line == ":merge" {
                do { try await note.merge() } catch { tell("cannot merge: \(error)") }
            } else {
                note.add(line)
                tell("added")
            }
        }
        if !note.documentState.contains(.closed) { try await note.finish() }
        watching.cancel()
    }

    nonisolated private static func tell(_ text: String) {
        // One write for each line, so that lines of several tasks do not mix.
        var line = text + "\n"
        line.withUTF8 { bytes in _ = Output.write(bytes) }
    }
}
