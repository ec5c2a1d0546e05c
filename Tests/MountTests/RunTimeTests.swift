import Foundation
import Testing

/// Run-times open files in ways of their own. Each reads a placeholder with its usual call and gets the whole content.
@Suite struct RunTimeTests {
    /// A program, and how it prints the file "f" to its standard output.
    private struct RunTime {
        let name: String
        let program: String
        let script: String
    }

    private static let all = [
        RunTime(name: "Python", program: "python3", script: "python3 -c 'print(open(\"f\").read(), end=\"\")'"),
        RunTime(name: "Perl", program: "perl", script: "perl -e 'open(F, \"f\"); print <F>'"),
        RunTime(name: "Ruby", program: "ruby", script: "ruby -e 'print File.read(\"f\")'"),
        RunTime(name: "Tcl", program: "tclsh", script: "echo 'puts -nonewline [read [open f]]' | tclsh"),
        RunTime(
            name: "Node", program: "node",
            script: "node -e 'process.stdout.write(require(\"fs\").readFileSync(\"f\"))'"),
        RunTime(name: "PHP", program: "php", script: "php -r 'echo file_get_contents(\"f\");'"),
        RunTime(name: "Lua", program: "lua", script: "lua -e 'io.write(io.open(\"f\"):read(\"*a\"))'"),
        RunTime(name: "awk", program: "awk", script: "awk 1 f"),
        RunTime(name: "shell", program: "bash", script: "bash -c 'echo \"$(<f)\"'"),
    ]

    @Test func runTimesReadPlaceholdersWhole() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("seq 200000 > f")
            try await world.settle(a, b)
            let wanted = try await a.shell("sha256sum < f")
            for runTime in Self.all {
                guard try await b.attempt("command -v \(runTime.program)").status == 0 else {
                    print("\(runTime.name) is not installed: skipped")
                    continue
                }
                try await b.ubiquity("evict", "f")
                #expect(try await b.shell("\(runTime.script) | sha256sum") == wanted, "\(runTime.name)")
            }
            // Swift's `String(contentsOfFile:)` opens with O_NONBLOCK.
            try await b.ubiquity("evict", "f")
            let path = b.mountPoint + "/f"
            let text = try await Task.detached { try String(contentsOfFile: path, encoding: .utf8) }.value
            #expect(text.hasSuffix("\n200000\n") && text.hasPrefix("1\n"))
        }
    }

    /// A file manager types files by their first bytes when the name does not tell, and downloads nothing by that.
    @Test func typingAFolderDownloadsNothing() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d; for n in $(seq 50); do echo $n > d/file$n; done")
            try await world.settle(a, b)
            let sniff = """
                for name in os.listdir('d'):
                    fails('EDEADLK', lambda: os.open('d/' + name, os.O_RDONLY | os.O_NOATIME))
                """
            try await b.python(sniff)
            if try await b.attempt("command -v gio").status == 0 {
                let listed = try await b.shell("gio list -a standard::content-type d")
                #expect(listed.split(separator: "\n").count == 50)
            }
            try await b.shell("ls --color=always d; python3 -m mimetypes d/file1")
            #expect(
                try await b.shell("getfattr --only-values -n user.ubiquity.downloading-status d/* | grep -o not- | wc -l")
                    == "50")
        }
    }
}
