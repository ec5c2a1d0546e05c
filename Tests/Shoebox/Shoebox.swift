import FoundationEssentials
import Glibc
import GRDB
import Ubiquity
import UbiquityDatabase

/// The example: a shoebox of photos for the terminal.
///
/// Ratings, keywords and albums are rows of a synced database. Pictures and previews are external files. Another device
/// downloads the small previews first, and a picture when somebody shows it.
///
///     shoebox FOLDER add PICTURE [ALBUM]     shoebox FOLDER rate NAME 0…5
///     shoebox FOLDER list                    shoebox FOLDER tag NAME KEYWORD
///     shoebox FOLDER show NAME               shoebox FOLDER watch
@main
struct ShoeboxProgram {
    static func main() async {
        let arguments = Array(CommandLine.arguments.dropFirst())
        guard arguments.count >= 2 else {
            print("usage: shoebox FOLDER add|list|show|rate|tag|watch …")
            exit(2)
        }
        do {
            let shoebox = try Shoebox(in: URL(filePath: arguments[0]))
            try await run(shoebox, arguments[1], Array(arguments.dropFirst(2)))
            try await shoebox.close()
        } catch {
            print("shoebox: \(error)")
            exit(1)
        }
    }

    private static func run(_ shoebox: Shoebox, _ command: String, _ rest: [String]) async throws {
        switch (command, rest.count) {
        case ("add", 1...2):
            try await shoebox.add(URL(filePath: rest[0]), album: rest.count > 1 ? rest[1] : nil)
        case ("list", 0):
            for line in try await shoebox.list() { print(line) }
        case ("show", 1): print(try await shoebox.picture(rest[0]).count, "bytes")
        case ("rate", 2): try await shoebox.rate(rest[0], Int(rest[1]) ?? 0)
        case ("tag", 2): try await shoebox.tag(rest[0], rest[1])
        case ("watch", 0): await shoebox.watch { print($0) }
        default: throw ShoeboxError(description: "no command '\(command)' with \(rest.count) arguments")
        }
    }
}

struct ShoeboxError: Error, CustomStringConvertible {
    var description: String
}
