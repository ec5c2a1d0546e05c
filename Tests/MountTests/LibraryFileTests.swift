import Testing

/// Calls of the library on single files: versions of programs, snapshots, moves out, pauses and previews.
@Suite struct LibraryFileTests {
    @Test("VC-16, LX-06: a version that a program adds is listed and read beside the others, after a remount too")
    func addedVersion() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            // Offline, so that the cloud has no earlier version of its own.
            try await a.ubiquity("offline", "")
            try await a.shell("echo draft > f")
            let probe = try await LibraryProbe.start(a)
            #expect(try await probe.perform("add-version f").first == "added manual true true")
            try await a.shell("echo final > f")
            #expect(try await a.shell("cat .versions/f/*") == "draft")
            #expect(try await a.ubiquity("versions", "f").out.contains("manual, by a program"))
            try await a.killAndMount()
            #expect(try await a.shell("ls .versions; cat .versions/f/*").contains("draft"))
            try await a.shell("cp .versions/f/* f; rm .versions/f/*; ls -A .versions")
            #expect(try await a.shell("cat f") == "draft")
        }
    }

    @Test("a snapshot for uploading releases its claim, and a presenter follows a file out of the container")
    func snapshotAndMove() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("mkdir d; echo 1 > d/x; echo 2 > f")
            let probe = try await LibraryProbe.start(a)
            #expect(try await probe.perform("upload-copy f").first == "copy f true")
            #expect(try await probe.perform("upload-copy d").first == "copy d.zip true")
            let other = try await Editor.start(a, "f")
            try await probe.perform("move-out f \(world.folder)/outside")
            #expect(try await world.shell("cat '\(world.folder)/outside'") == "2")
            try await other.waitUntilHeard("moved f \(world.folder)/outside")
        }
    }

    @Test("PV-03: a small preview is here before anybody reads it, its document is not; a paused file stays as it is")
    func previewsAndPauses() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir -p Documents Previews; seq 50000 > Documents/n; echo small > Previews/n.preview")
            try await world.settle(a)
            try await b.waitFor("downloading-status", "current", of: "Previews/n.preview")
            #expect(try await b.attribute("downloading-status", of: "Documents/n") == "not-downloaded")
            let probe = try await LibraryProbe.start(b)
            try await probe.perform("pause Previews/n.preview")
            try await a.shell("echo newer > Previews/n.preview")
            try await world.settle(a)
            #expect(try await probe.perform("fetch Previews/n.preview").first == "fetched newer")
            #expect(try await b.shell("cat Previews/n.preview") == "small")
            try await probe.perform("resume Previews/n.preview")
            try await b.waitUntil("test \"$(cat Previews/n.preview)\" = newer")
            // An excluded file stays here and leaves the other device.
            try await probe.perform("exclude Previews/n.preview yes")
            try await a.waitUntil("! test -e Previews/n.preview")
            #expect(try await b.shell("cat Previews/n.preview") == "newer")
            #expect(try await b.attribute("is-excluded-from-sync", of: "Previews/n.preview") == "1")
        }
    }

    @Test("ubiquity.py reads states, queries and versions, and coordinates")
    func python() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > f")
            try await world.settle(a)
            let file: String = #filePath
            let folder = file.split(separator: "/").dropLast(3).map { "/\($0)" }.joined() + "/Sources/Python"
            let out = try await a.python(
                """
                import sys; sys.path.insert(0, "\(folder)")
                import ubiquity
                mount = ubiquity.find("f")
                state = ubiquity.state("f")
                assert state.is_uploaded and state.downloading_status == "current", state
                assert [item["path"] for item in mount.query("name == 'f'")] == ["f"]
                assert mount.versions("f")[0]["kind"] == "current"
                class Shown(ubiquity.Presenter):
                    saved = False
                    def save_changes(self): self.saved = True
                shown = Shown()
                with mount.client("viewer") as viewer, mount.client("reader") as reader:
                    viewer.present("f", shown)
                    with reader.writing("f", "for-merging") as path:
                        open(path, "a").write("more\\n")
                assert shown.saved
                try: mount.versions("none")
                except ubiquity.UbiquityError as error: print(error.code)
                """)
            #expect(out.contains("notFound"))
            #expect(try await a.shell("cat f") == "text\nmore")
        }
    }
}
