import Foundation
import Testing
import UbiquityCore

/// The rules of ignore files and of the standard list.
@Suite struct IgnoreTests {
    private static func path(_ text: String) -> [ItemName] {
        text.split(separator: "/").map { ItemName(stored: Array($0.utf8)) }
    }

    /// A path that ends in "/" is a folder.
    private static func ignores(_ path: String, _ files: [String: String]) -> Bool {
        let names = Self.path(path)
        let levels = files.map { (folder: Self.path($0.key), rules: IgnoreRules(text: Array($0.value.utf8))) }
            .filter { names.starts(with: $0.folder) }.map { (depth: $0.folder.count, rules: $0.rules) }
            .sorted { $0.depth < $1.depth }
        return IgnoreRules.decision(on: names, isDirectory: path.hasSuffix("/"), by: levels) == true
    }

    @Test(arguments: [
        ".a.swp", ".report.txt.swo", ".a.swa", "4913", "report.txt~", ".report.txt.un~", ".goutputstream-X1Y2",
        ".~lock.report.odt#", ".#notes", "#notes#", "~$Doc.docx", ".report.txt.Ab3xYz", "..a.9bcdeF", "lu19283ab.tmp",
        ".nfs00000000012345", ".fuse_hidden0001",
    ])
    func temporaryFilesAreIgnored(_ name: String) {
        #expect(IgnoreRules.standard.decision(on: Self.path(name)[...], isDirectory: false) == true)
    }

    @Test(arguments: [
        "a.swap", "49130", "~report", "report.txt", "nosync", ".goutputstream", "#a", ".lock", ".bashrc.backup",
        ".config.sample", ".notes.README", ".a.tar.gz", "a.Ab3xYz", "film.swf", ".x.12345", "lua.tmp",
    ])
    func documentsAreSynced(_ name: String) {
        #expect(IgnoreRules.standard.decision(on: Self.path(name)[...], isDirectory: false) != true)
    }

    /// Each is a text, paths it ignores and paths it does not, checked against git.
    private static let table: [(text: String, ignored: [String], kept: [String])] = [
        ("*.log", ["a.log", "d/a.log", ".log", "d.log/"], ["a.logs", "log"]),
        ("# a\n\n\\#b\n\\!c", ["#b", "!c", "d/!c"], ["a", "# a", "b"]),
        ("a ", ["a"], ["a "]),
        ("a\\ ", ["a "], ["a"]),
        ("a\r\nb", ["a", "b"], ["a\r"]),
        ("/top", ["top", "top/x"], ["d/top"]),
        ("build/", ["build/", "d/build/", "build/x"], ["build", "d/build"]),
        ("d/a", ["d/a", "d/a/x"], ["a", "e/d/a"]),
        ("**/a", ["a", "d/a", "d/e/a"], ["ba"]),
        ("d/**", ["d/a", "d/e/a", "d/e/"], ["e/d/a"]),
        ("d/**/a", ["d/a", "d/e/a", "d/e/f/a"], ["a", "da", "d/ea"]),
        ("a**b", ["ab", "axb"], ["a/b"]),
        ("d/a**b", ["d/ab", "d/axyb"], ["d/a/b"]),
        ("d/*", ["d/a", "d/e/", "d/e/a"], ["e/d/a"]),
        ("d/*/a", ["d/e/a"], ["d/a", "d/e/f/a"]),
        ("?", ["a", "d/b"], ["ab"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
        ("[!a-c]x", ["dx", "-x"], ["ax"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("[]a]x", ["]x", "ax"], ["bx"]),
        ("[a-]x", ["ax", "-x"], ["bx"]),
        ("[[:digit:]_]x", ["1x", "_x"], ["ax"]),
        ("[\\]]x", ["]x"], ["\\x"]),
        ("[ab", [], ["a", "[ab"]),
        ("a\\", [], ["a", "a\\"]),
        ("*\n!keep", ["a", "d/", "d/keep"], ["keep"]),
        ("d/\n!d/keep", ["d/keep", "d/a"], ["e/keep"]),
        ("d/*\n!d/keep", ["d/a"], ["d/keep"]),
        ("\\*", ["*"], ["a"]),
        ("a*b*c", ["abc", "axxbyyc"], ["ab", "ac", "abcd"]),
        ("!a\na", ["a"], []),
        ("/", [], ["a", "d/"]),
        ("é*", ["été"], ["ete"]),
        ("d/e/", ["d/e/", "d/e/a"], ["d/e", "e/"]),
        ("**", ["a", "d/a"], []),
        ("**/", ["d/", "d/a"], ["a"]),
        ("/**/a", ["a", "d/a"], ["ab"]),
        ("d/**/**/a", ["d/a", "d/e/a"], ["a"]),
    ]

    @Test(arguments: table.indices)
    func patternsMatchTheTable(_ row: Int) {
        let (text, ignored, kept) = Self.table[row]
        for path in ignored { #expect(Self.ignores(path, ["": text]), "\(path) by \(text)") }
        for path in kept { #expect(!Self.ignores(path, ["": text]), "\(path) by \(text)") }
    }

    @Test func deeperRulesWinAndIgnoredFoldersStayIgnored() {
        let files = ["": "*.log\n/out/", "d": "!a.log\nsub/*", "d/sub": "!b", "out": "!x"]
        for path in ["a.log", "e/a.log", "d/b.log", "d/sub/c", "out/x"] { #expect(Self.ignores(path, files), "\(path)") }
        for path in ["d/a.log", "d/sub/b", "d/out/x", "d/x"] { #expect(!Self.ignores(path, files), "\(path)") }
    }

    @Test func patternOfManyStarsIsFast() {
        let stars = String(repeating: "*a", count: 100) + "b", folders = String(repeating: "**/a/", count: 100) + "b"
        #expect(!Self.ignores(String(repeating: "a", count: 255), ["": stars]))
        #expect(!Self.ignores(String(repeating: "a/", count: 400) + "c", ["": folders]))
    }

    // MARK: Against git

    private static let git = ["/usr/bin/git", "/usr/local/bin/git"].first(where: FileManager.default.isExecutableFile)

    @Test(.enabled(if: git != nil, "git is not installed")) func gitGivesTheSameDecisions() throws {
        let git = try #require(Self.git)
        let folder = FileManager.default.temporaryDirectory.appending(path: "ubiquity-ignore-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        _ = try Self.run(git, ["init", "-q"], in: folder)
        for (text, ignored, kept) in Self.table + Self.randomRows() {
            try Data(text.utf8).write(to: folder.appending(path: ".gitignore"))
            let paths = ignored + kept
            // With each path on the command line, a slash at the end marks a folder.
            let said = try Self.run(git, ["-c", "core.quotePath=false", "check-ignore", "--no-index", "--"] + paths, in: folder)
            let theirs = Set(said.split(separator: "\n").map(String.init))
            let ours = Set(paths.filter { Self.ignores($0, ["": text]) })
            #expect(theirs == ours, "\(text.debugDescription)")
        }
    }

    /// Patterns and paths of few letters, so that many match.
    private static func randomRows() -> [(text: String, ignored: [String], kept: [String])] {
        var seed: UInt64 = 7
        func next(_ bound: Int) -> Int {
            seed = seed &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(seed >> 33) % bound
        }
        let pieces = ["a", "b", "*", "**", "?", "/", "/", "[ab]", "[!a]", "\\a", "a"]
        return (0..<150).map { _ in
            let lines = (0..<(1 + next(3))).map { _ in
                (next(4) == 0 ? "!" : "") + (0..<(1 + next(6))).map { _ in pieces[next(pieces.count)] }.joined()
            }
            let paths = Set(
                (0..<12).map { _ in
                    (0..<(1 + next(4))).map { _ in ["a", "b", "ab", "ba"][next(4)] }.joined(separator: "/")
                        + (next(3) == 0 ? "/" : "")
                })
            return (lines.joined(separator: "\n"), paths.sorted(), [])
        }
    }

    private static func run(_ program: String, _ arguments: [String], in folder: URL) throws -> String {
        let process = Process(), output = Pipe()
        process.executableURL = URL(filePath: program)
        process.arguments = ["-c", "core.excludesFile=/dev/null", "-C", folder.path] + arguments
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return String(decoding: data, as: UTF8.self)
    }
}
