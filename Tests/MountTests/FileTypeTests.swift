import Testing

/// Programs that list a folder and determine the types of its files.
@Suite struct FileTypeTests {
    /// A folder "d" of 50 placeholders whose names give no hint of their types.
    private func withPlaceholders(_ body: @Sendable (World, Device) async throws -> Void) async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d; for n in $(seq 50); do echo $n > d/file$n; done")
            try await world.settle(a, b)
            try await body(world, b)
        }
    }

    private func placeholders(_ device: Device) async throws -> String {
        try await device.shell(
            "getfattr --only-values -n user.ubiquity.downloading-status d/* | grep -o not-downloaded | wc -l")
    }

    /// A file manager types files by their first bytes if the name gives no hint, and downloads nothing for that.
    @Test func typingAFolderDownloadsNothing() async throws {
        try await withPlaceholders { world, b in
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
            #expect(try await placeholders(b) == "50")
        }
    }

    @Test func listingProgramsDownloadNothing() async throws {
        try await withPlaceholders { world, b in
            try await b.shell("ls -lR --color=always . > /dev/null; find . -type f -size +0 > /dev/null; du -sh d > /dev/null")
            #expect(try await placeholders(b) == "50", "ls, find, du")
            let guess = "import mimetypes\nfor name in os.listdir('d'): assert mimetypes.guess_type('d/' + name)[0] is None"
            try await b.python(guess)
            #expect(try await placeholders(b) == "50", "Python's mimetypes")
            if try await b.attempt("command -v tree").status == 0 {
                #expect(try await b.shell("tree -C -s d").contains("50 files"))
                #expect(try await placeholders(b) == "50", "tree")
            } else {
                print("tree is not installed: skipped")
            }
            if try await b.attempt("command -v mc").status == 0 {
                // It shows the folder in a panel; F10 quits.
                let panel = ["/bin/sh", "-c", "cd '\(b.mountPoint)/d' && exec mc --nosubshell --nocolor . /"]
                try await Tools.type([(seen: "file10", keys: "\u{1b}0")], into: panel, in: world)
                #expect(try await placeholders(b) == "50", "Midnight Commander")
            } else {
                print("Midnight Commander is not installed: skipped")
            }
        }
    }

    /// `file` reads contents because a user asked for that: it gets them.
    @Test func fileDownloadsAndTypesByContent() async throws {
        try await withPlaceholders { world, b in
            guard try await b.attempt("command -v file").status == 0 else { return print("file is not installed: skipped") }
            #expect(try await b.shell("file d/file1 d/file2") == "d/file1: ASCII text\nd/file2: ASCII text")
            #expect(try await placeholders(b) == "48")
        }
    }
}
