import FoundationEssentials
import Ubiquity

/// The example: a notes program for the terminal that takes part in coordination.
///
/// `notes show FILE` prints a note, also one that another program has not saved yet. `notes edit FILE` adds each line
/// that is typed; it is saved at the end of the input, and before that whenever another program, or another device's
/// change, needs it on the disk.
@main
struct Notes {
    static func main() async {
        let arguments = CommandLine.arguments
        guard arguments.count == 3, let command = ["show": show, "edit": edit][arguments[1]] else {
            print("usage: notes show|edit FILE")
            return
        }
        do { try await command(URL(filePath: arguments[2])) } catch { print("notes: \(error)") }
    }

    @Sendable static func show(_ url: URL) async throws {
        let text = try await FileCoordinator().coordinate(readingItemAt: url) { url in
            try String(contentsOf: url, encoding: .utf8)
        }
        print(text, terminator: "")
    }

    @Sendable static func edit(_ url: URL) async throws {
        let note = Note(at: url) { tell($0) }
        try await note.open()
        tell("open")
        // Typing is waited for by a thread of its own: tasks go on meanwhile.
        let lines = AsyncStream<String> { typed in
            Typing.start { line in if let line { typed.yield(line) } else { typed.finish() } }
        }
        for await line in lines {
            note.add(line)
            tell("noted")
        }
        try await note.close()
    }

    private static func tell(_ text: String) {
        // One write for each line, so that lines of several tasks do not mix.
        var line = text + "\n"
        line.withUTF8 { bytes in _ = Output.write(bytes) }
    }
}
