import Foundation
import Testing

/// Each run-time opens files in its own way. Each reads a placeholder and must get the whole content: with its usual
/// call, and with `O_NONBLOCK` if a program can request it.
@Suite struct RunTimeTests {
    /// A program, and how it prints the file "f" to its standard output.
    private struct RunTime {
        let name: String
        /// The command that shows whether it is installed.
        let program: String
        let script: String
        /// Nil if its programs cannot request it.
        var nonBlocking: String?
    }

    private static let all = [
        RunTime(
            name: "Python", program: "python3", script: "python3 -c 'print(open(\"f\").read(), end=\"\")'",
            nonBlocking: """
                python3 -c 'import os, shutil, sys
                shutil.copyfileobj(open(os.open("f", os.O_RDONLY | os.O_NONBLOCK), "rb"), sys.stdout.buffer)'
                """),
        RunTime(
            name: "Perl", program: "perl", script: "perl -e 'open(F, \"f\"); print <F>'",
            nonBlocking: """
                perl -MFcntl -e 'sysopen(F, "f", O_RDONLY | O_NONBLOCK) or die; print $b while sysread(F, $b, 65536)'
                """),
        RunTime(
            name: "Ruby", program: "ruby", script: "ruby -e 'print File.read(\"f\")'",
            nonBlocking: "ruby -e 'print File.open(\"f\", File::RDONLY | File::NONBLOCK).read'"),
        RunTime(
            name: "Tcl", program: "tclsh", script: "echo 'puts -nonewline [read [open f]]' | tclsh",
            nonBlocking: "echo 'puts -nonewline [read [open f {RDONLY NONBLOCK}]]' | tclsh"),
        RunTime(
            name: "Node", program: "node",
            script: "node -e 'process.stdout.write(require(\"fs\").readFileSync(\"f\"))'",
            nonBlocking: """
                node -e 'const fs = require("fs"), c = fs.constants
                process.stdout.write(fs.readFileSync(fs.openSync("f", c.O_RDONLY | c.O_NONBLOCK)))'
                """),
        RunTime(
            name: "PHP", program: "php", script: "php -r 'echo file_get_contents(\"f\");'",
            nonBlocking: "php -r 'fpassthru(fopen(\"f\", \"rn\"));'"),
        RunTime(name: "Lua", program: "lua", script: "lua -e 'io.write(io.open(\"f\"):read(\"*a\"))'"),
        RunTime(name: "awk", program: "awk", script: "awk 1 f"),
        RunTime(
            name: "shell", program: "bash", script: "bash -c 'echo \"$(<f)\"'",
            nonBlocking: "dd if=f iflag=nonblock bs=64k status=none"),
    ]

    /// A run-time whose programs are built first: `read usual` and `read nonblocking` print the file "f".
    struct Compiled: CustomTestStringConvertible, Sendable {
        let name: String
        let program: String
        let file: String
        let source: String
        let build: String
        let run: String

        var testDescription: String { name }
    }

    static let compiled = [
        Compiled(
            name: "Go", program: "go", file: "read.go",
            source: """
                package main
                import ("io"; "os"; "syscall")
                func check(err error) { if err != nil { panic(err) } }
                func main() {
                    if os.Args[1] == "usual" {
                        data, err := os.ReadFile("f")
                        check(err)
                        os.Stdout.Write(data)
                        return
                    }
                    file, err := os.OpenFile("f", os.O_RDONLY | syscall.O_NONBLOCK, 0)
                    check(err)
                    _, err = io.Copy(os.Stdout, file)
                    check(err)
                }
                """,
            build: "CGO_ENABLED=0 go build -o read read.go", run: "$built/read"),
        // Java has no such flag; its asynchronous channels are the nearest.
        Compiled(
            name: "Java", program: "javac", file: "Read.java",
            source: """
                import java.nio.*; import java.nio.channels.*; import java.nio.file.*;
                public class Read {
                    public static void main(String[] words) throws Exception {
                        if (words[0].equals("usual")) {
                            System.out.write(Files.readAllBytes(Path.of("f")));
                            System.out.flush();
                            return;
                        }
                        AsynchronousFileChannel file = AsynchronousFileChannel.open(Path.of("f"));
                        ByteBuffer buffer = ByteBuffer.allocate(65536);
                        for (long at = 0, count; (count = file.read(buffer, at).get()) > 0; at += count) {
                            System.out.write(buffer.array(), 0, (int) count);
                            buffer.clear();
                        }
                        System.out.flush();
                        System.exit(0);
                    }
                }
                """,
            build: "javac Read.java", run: "java -XX:TieredStopAtLevel=1 -cp \"$built\" Read"),
        Compiled(
            name: "Rust", program: "rustc", file: "read.rs",
            source: """
                use std::io::{copy, stdout, Write};
                use std::os::unix::fs::OpenOptionsExt;
                fn main() {
                    if std::env::args().nth(1).unwrap() == "usual" {
                        stdout().write_all(&std::fs::read("f").unwrap()).unwrap();
                        return;
                    }
                    let mut file = std::fs::OpenOptions::new().read(true).custom_flags(0o4000).open("f").unwrap();
                    copy(&mut file, &mut stdout()).unwrap();
                }
                """,
            build: "rustc read.rs", run: "$built/read"),
    ]

    /// Two devices. For each reading "f" is a placeholder on the second one.
    private func withPlaceholder(_ body: @Sendable (World, Device, _ wanted: String) async throws -> Void) async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("seq 200000 > f")
            try await world.settle(a, b)
            try await body(world, b, try await a.shell("sha256sum < f"))
        }
    }

    private func expectWhole(_ script: String, _ device: Device, _ wanted: String, _ name: String) async throws {
        try await device.ubiquity("evict", "f")
        try await device.waitFor("downloading-status", "not-downloaded", of: "f")
        #expect(try await device.shell("(\(script)) | sha256sum") == wanted, "\(name)")
    }

    /// Whether a run-time is installed; if not, prints its name.
    private func isInstalled(_ name: String, _ program: String, _ device: Device) async throws -> Bool {
        // A wrapper of a version manager may exist without the program itself.
        let probes = ["--version", "-version", "version", "-v", ""].map { "\(program) \($0)" }.joined(separator: " || ")
        let isThere = try await device.attempt(
            "PATH=/usr/bin:$PATH; command -v \(program) && { \(probes); } < /dev/null").status == 0
        if !isThere { print("\(name) is not installed: skipped") }
        return isThere
    }

    @Test func runTimesReadPlaceholdersWhole() async throws {
        try await withPlaceholder { world, b, wanted in
            for runTime in Self.all where try await isInstalled(runTime.name, runTime.program, b) {
                try await expectWhole(runTime.script, b, wanted, runTime.name)
            }
            // Foundation opens files with O_NONBLOCK.
            let path = b.mountPoint + "/f", url = URL(filePath: path)
            let reads: [(String, @Sendable () throws -> String)] = [
                ("contentsOfFile", { try String(contentsOfFile: path, encoding: .utf8) }),
                ("contentsOf", { try String(contentsOf: url, encoding: .utf8) }),
                ("Data", { String(decoding: try Data(contentsOf: url), as: UTF8.self) }),
                ("mapped", { String(decoding: try Data(contentsOf: url, options: .alwaysMapped), as: UTF8.self) }),
                ("uncached", { String(decoding: try Data(contentsOf: url, options: .uncached), as: UTF8.self) }),
                ("handle", {
                    String(decoding: try FileHandle(forReadingFrom: url).readToEnd() ?? Data(), as: UTF8.self)
                }),
            ]
            for (name, read) in reads {
                try await b.ubiquity("evict", "f")
                let text = try await Task.detached { try read() }.value
                #expect(text.hasSuffix("\n200000\n") && text.hasPrefix("1\n"), "\(name)")
            }
        }
    }

    @Test func nonBlockingReadsOfPlaceholdersAreWhole() async throws {
        try await withPlaceholder { world, b, wanted in
            for runTime in Self.all {
                guard let script = runTime.nonBlocking, try await isInstalled(runTime.name, runTime.program, b) else {
                    continue
                }
                try await expectWhole(script, b, wanted, "\(runTime.name) with O_NONBLOCK")
            }
        }
    }

    /// Debian has no .NET, so this table has none.
    @Test(arguments: compiled) func builtProgramsReadPlaceholdersWhole(_ runTime: Compiled) async throws {
        try await withPlaceholder { world, b, wanted in
            guard try await isInstalled(runTime.name, runTime.program, b) else { return }
            let folder = world.folder + "/built"
            try await world.shell("mkdir '\(folder)'")
            try runTime.source.write(toFile: "\(folder)/\(runTime.file)", atomically: false, encoding: .utf8)
            let built = try await world.attempt(
                ["/bin/sh", "-c", "PATH=/usr/bin:$PATH; cd '\(folder)' && \(runTime.build)"], within: 120)
            // A compiler may lack its linker or its library.
            guard built.status == 0 else { return print("\(runTime.name) builds nothing here: skipped: \(built.err)") }
            for way in ["usual", "nonblocking"] {
                try await expectWhole("built='\(folder)'; \(runTime.run) \(way)", b, wanted, "\(runTime.name), \(way)")
            }
        }
    }
}
