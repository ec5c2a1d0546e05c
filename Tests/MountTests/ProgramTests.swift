import Testing

/// Popular programs in a mount.
@Suite struct ProgramTests {
    @Test func vimSavesOneNewVersionOfTheSameItem() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir Documents; echo one > Documents/f.txt; setfattr -n user.k -v v Documents/f.txt")
            try await world.settle(a, b)
            let item = try await a.attribute("item-id", of: "Documents/f.txt")
            try await b.shell("cat Documents/f.txt")
            for number in 1...3 {
                try await a.shell(
                    "vim -N -u NONE -es -c 'set backup writebackup' -c 'normal Goadded \(number)' -c wq Documents/f.txt"
                )
            }
            try await world.settle(a, b)
            #expect(try await a.attribute("item-id", of: "Documents/f.txt") == item)
            #expect(try await a.attribute("conflict-count", of: "Documents/f.txt") == "0")
            #expect(try await b.shell("cat Documents/f.txt") == "one\nadded 1\nadded 2\nadded 3")
            #expect(try await b.shell("getfattr --only-values -n user.k Documents/f.txt; ls Documents") == "vf.txt")
        }
    }

    @Test func nanoSaveIsUploaded() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo line > f.txt")
            try await world.settle(a, b)
            try await Tools.type(
                [("f.txt", "typed "), ("typed", "\u{0F}"), ("File Name to Write", "\r"), ("Wrote", "\u{18}")],
                into: ["nano", "-I", "\(b.mountPoint)/f.txt"], in: world)
            try await world.settle(b, a)
            #expect(try await a.shell("cat f.txt; ls -A") == "typed line\nf.txt")
        }
    }

    @Test func sedEditsInPlaceOnBothDevices() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("for n in 1 2 3 4; do echo \"word $n\" > $n; done")
            try await world.settle(a, b)
            let items = try await a.shell("getfattr --only-values -n user.ubiquity.item-id 1 4")
            try await a.shell("sed -i s/word/left/ 1 2")
            try await b.shell("sed -i s/word/right/ 3 4")
            try await world.settle(a, b)
            for device in [a, b] {
                #expect(try await device.shell("cat 1 2 3 4; ls -A | wc -l") == "left 1\nleft 2\nright 3\nright 4\n4")
            }
            #expect(try await b.shell("getfattr --only-values -n user.ubiquity.item-id 1 4") == items)
        }
    }

    @Test func gitWorksInAMount() async throws {
        try await World.run { world in
            // Packing a new repository deletes more than half of all files.
            let a = try world.device("a")
            try await a.mount(["--allow-mass-delete"])
            let b = try await world.mounted("b")
            let identity = "-c user.name=n -c user.email=n@example.org"
            try await world.shell(
                """
                cd '\(world.folder)'; git init -q -b main origin; cd origin
                for n in $(seq 30); do mkdir d$n; seq $n > d$n/f; done
                git add -A; git \(identity) commit -qm first
                """)
            try await a.shell(
                """
                git clone -q '\(world.folder)/origin' work; cd work
                echo change >> d1/f; git mv d2/f d2/g; git rm -q d3/f; git add -A
                git \(identity) commit -qm second; git gc -q; git status --porcelain; git fsck --no-progress
                """)
            try await world.settle(a, b)
            let log = try await b.shell(
                "cd work; git fsck --no-progress; git status --porcelain; git log --format=%s; cat d1/f")
            #expect(log == "second\nfirst\n1\nchange")
        }
    }

    @Test func sqliteWorksInAMount() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell(
                """
                sqlite3 f.db 'PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1), (2)'
                sqlite3 f.db 'INSERT INTO t SELECT x + 2 FROM t; PRAGMA wal_checkpoint(TRUNCATE)'
                sqlite3 g.db 'CREATE TABLE t (x); INSERT INTO t VALUES (7)'
                for n in $(seq 20); do sqlite3 g.db "INSERT INTO t VALUES ($n)"; done
                """)
            try await world.settle(a, b)
            #expect(try await b.shell("sqlite3 f.db 'SELECT sum(x) FROM t; PRAGMA integrity_check'") == "10\nok")
            #expect(try await b.shell("sqlite3 g.db 'SELECT count(*) FROM t; PRAGMA integrity_check'") == "21\nok")
        }
    }
}
