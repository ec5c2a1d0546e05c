import Foundation
import Testing
import UbiquityCore

/// Archives are read by Info-ZIP's unzip and by Python, which share no code with the writer.
@Suite struct ZipWriterTests {
    private struct Sample {
        var path: [String]
        var content: [UInt8]?
        var modified = Timestamp(seconds: 1_700_000_001, nanoseconds: 5)

        func entry() throws -> ZipEntry {
            let names = try path.map { try ItemName($0) }
            return try ZipEntry(names, content.map { .file(size: Int64($0.count)) } ?? .folder, modified: modified)
        }
    }

    private static func archive(_ samples: [Sample]) throws -> [UInt8] {
        var zip = ZipWriter(), bytes: [UInt8] = []
        for sample in samples {
            bytes += zip.begin(try sample.entry())
            let content = sample.content ?? []
            for start in stride(from: 0, to: content.count, by: 1000) {
                let part = content[start..<min(start + 1000, content.count)]
                zip.add(part)
                bytes += part
            }
            bytes += try zip.end()
        }
        return bytes + zip.finish()
    }

    private static func run(_ program: String, _ arguments: [String]) throws -> (status: Int32, output: String) {
        let process = Process(), pipe = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [program] + arguments
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return (process.terminationStatus, output)
    }

    private static func withFile<R>(_ bytes: [UInt8], _ body: (String) throws -> R) throws -> R {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).zip")
        try Data(bytes).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        return try body(file.path)
    }

    @Test func unzipAndPythonReadTheArchive() throws {
        let samples = [
            Sample(path: ["Notes"]), Sample(path: ["Notes", "Größe 日本.txt"], content: Array("hello\n".utf8)),
            Sample(path: ["Notes", "empty"], content: []),
            Sample(path: ["Notes", "big.bin"], content: (0..<123_457).map { UInt8(truncatingIfNeeded: $0 &* 31) }),
        ]
        let bytes = try Self.archive(samples)
        let entries = try samples.map { try $0.entry() }
        #expect(Int64(bytes.count) == ZipWriter.length(of: entries))
        try Self.withFile(bytes) { path in
            let tested = try Self.run("unzip", ["-t", path])
            #expect(tested.status == 0, "\(tested.output)")
            let script = """
                import sys, zipfile
                with zipfile.ZipFile(sys.argv[1]) as zip:
                    print(zip.testzip())
                    for entry in zip.infolist():
                        print(entry.filename, entry.file_size, entry.date_time, oct(entry.external_attr >> 16))
                """
            let listed = try Self.run("python3", ["-X", "utf8", "-c", script, path])
            let lines = listed.output.split(separator: "\n").map(String.init)
            let time = "(2023, 11, 14, 22, 13, 20)"
            #expect(
                lines == [
                    "None", "Notes/ 0 \(time) 0o40755", "Notes/Größe 日本.txt 6 \(time) 0o100644",
                    "Notes/empty 0 \(time) 0o100644", "Notes/big.bin 123457 \(time) 0o100644",
                ])
        }
    }

    @Test func emptyArchiveIsReadable() throws {
        try Self.withFile(try Self.archive([])) { path in
            let script = "import sys, zipfile; print(zipfile.ZipFile(sys.argv[1]).namelist())"
            let listed = try Self.run("python3", ["-c", script, path])
            #expect(listed.output == "[]\n")
        }
    }

    /// More entries than 16 bits count.
    @Test func manyEntriesUseZip64() throws {
        let samples = (0..<66_000).map { Sample(path: ["\($0)"]) }
        let bytes = try Self.archive(samples)
        let entries = try samples.map { try $0.entry() }
        #expect(Int64(bytes.count) == ZipWriter.length(of: entries))
        try Self.withFile(bytes) { path in
            let script = "import sys, zipfile; print(len(zipfile.ZipFile(sys.argv[1]).namelist()))"
            let listed = try Self.run("python3", ["-c", script, path])
            #expect(listed.output == "66000\n")
        }
    }

    /// A file beyond 4 GiB, as a hole on the disk, and a file after it.
    @Test func largeFilesUseZip64() throws {
        let large = try ZipEntry([ItemName("large")], .file(size: 5 << 30), modified: .zero)
        let last = try ZipEntry([ItemName("last")], .file(size: 2), modified: .zero)
        var zip = ZipWriter()
        let head = zip.begin(large)
        zip.addUnread(5 << 30)
        var tail = try zip.end() + zip.begin(last)
        zip.add(Array("ok".utf8)[...])
        tail += Array("ok".utf8) + (try zip.end()) + zip.finish()
        try Self.withFile(head) { path in
            let file = try #require(FileHandle(forWritingAtPath: path))
            try file.seek(toOffset: UInt64(head.count) + 5 << 30)
            try file.write(contentsOf: Data(tail))
            let end = Int64(try file.offset())
            #expect(end == ZipWriter.length(of: [large, last]))
            try file.close()
            let script = """
                import sys, zipfile
                with zipfile.ZipFile(sys.argv[1]) as zip:
                    print([entry.file_size for entry in zip.infolist()], zip.read('last'))
                """
            #expect(try Self.run("python3", ["-c", script, path]).output == "[5368709120, 2] b'ok'\n")
        }
    }

    @Test func contentOfAnotherLengthIsRefused() throws {
        var zip = ZipWriter()
        _ = zip.begin(try ZipEntry([ItemName("a")], .file(size: 3), modified: .zero))
        zip.add([1, 2])
        #expect(throws: ZipError.wrongSize(expected: 3, actual: 2)) { try zip.end() }
    }

    /// A backslash separates folders on Windows.
    @Test func noNameLeavesTheFolder() throws {
        let samples = [Sample(path: ["..\\..\\x"], content: [1]), Sample(path: ["a\nb"], content: [2])]
        try Self.withFile(try Self.archive(samples)) { path in
            let script = "import sys, zipfile; print(ascii(zipfile.ZipFile(sys.argv[1]).namelist()))"
            let names = try Self.run("python3", ["-c", script, path]).output
            #expect(names == "['..\\uff3c..\\uff3cx', 'a\\u240ab']\n")
        }
        #expect(throws: ZipError.pathless) { try ZipEntry([], .folder, modified: .zero) }
        let deep = try [ItemName](repeating: ItemName(String(repeating: "d", count: 255)), count: 300)
        #expect(throws: ZipError.pathTooLong(deep)) { try ZipEntry(deep, .folder, modified: .zero) }
    }

    @Test func symlinksKeepTheirTarget() throws {
        var zip = ZipWriter()
        let entry = try ZipEntry([ItemName("link")], .symlink(target: Array("to/here".utf8)), modified: .zero)
        let bytes = try zip.begin(entry) + zip.end() + zip.finish()
        #expect(Int64(bytes.count) == ZipWriter.length(of: [entry]))
        let target = try Self.withFile(bytes) { try Self.run("unzip", ["-p", $0, "link"]).output }
        #expect(target == "to/here")
    }

    @Test func timesOutsideTheFormatAreClamped() throws {
        for seconds: Int64 in [-9_000_000_000, 0, 4_354_819_199, 9_000_000_000] {
            let sample = Sample(path: ["a"], content: [1], modified: Timestamp(seconds: seconds, nanoseconds: 0))
            let tested = try Self.withFile(try Self.archive([sample])) { try Self.run("unzip", ["-tq", $0]) }
            #expect(tested.status == 0, "\(tested.output)")
        }
    }

    @Test(arguments: [
        ("", UInt32(0)), ("123456789", 0xCBF4_3926), ("The quick brown fox", 0xB745_74DE),
    ])
    func checksumEqualsThePublishedOne(_ text: String, _ value: UInt32) {
        #expect(CRC32(of: Array(text.utf8)).value == value)
    }
}
