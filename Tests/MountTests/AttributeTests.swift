import Testing
import UbiquityControl

/// The attributes `user.ubiquity.*`, which must be true at every moment.
@Suite struct AttributeTests {
    private static let names: Set<String> = [
        "is-ubiquitous", "downloading-status", "is-downloading", "percent-downloaded", "downloading-error",
        "download-requested", "is-uploaded", "is-uploading", "percent-uploaded", "uploading-error",
        "has-unresolved-conflicts", "conflict-count", "is-excluded-from-sync", "is-package", "is-pinned", "item-id",
        "version-id", "container", "published",
    ]

    /// The attributes that all idle, synced items have alike.
    private static let quiet = [
        "is-ubiquitous": "1", "is-downloading": "0", "downloading-error": "", "download-requested": "0",
        "is-uploading": "0", "uploading-error": "", "has-unresolved-conflicts": "0", "conflict-count": "0",
        "is-excluded-from-sync": "0", "is-package": "0", "is-pinned": "0", "container": "default",
        "published": "0",
    ]

    private func expect(
        _ device: Device, _ path: String, _ values: [String: String],
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let found = try await device.attributes(of: path)
        #expect(Set(found.keys) == Self.names, sourceLocation: sourceLocation)
        for (name, value) in Self.quiet.merging(values, uniquingKeysWith: { $1 }) {
            #expect(found[name] == value, "\(name) of \(path)", sourceLocation: sourceLocation)
        }
    }

    @Test func attributesShowTheStateOfFilesAndFolders() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d; head -c 200000 /dev/urandom > d/f")
            try await world.settle(a, b)
            let here = [
                "downloading-status": "current", "percent-downloaded": "100", "is-uploaded": "1",
                "percent-uploaded": "100",
            ]
            let away = here.merging(["downloading-status": "not-downloaded", "percent-downloaded": "0"]) { $1 }
            try await expect(a, "d/f", here)
            try await expect(a, "d", here)
            try await expect(b, "d/f", away)
            try await expect(b, "d", away)
            for name in ["item-id", "version-id"] {
                let value = try await a.attribute(name, of: "d/f")
                #expect(value.count >= 16)
                #expect(try await b.attribute(name, of: "d/f") == value)
            }
            try await b.shell("cat d/f > /dev/null")
            try await b.waitFor("downloading-status", "current", of: "d/f")
            for path in ["d/f", "d"] { try await expect(b, path, here) }
            try await a.ubiquity("offline", "")
            try await a.shell("echo new > n; echo changed >> d/f; mkdir e")
            try await a.waitFor("is-uploaded", "0", of: "d/f")
            try await expect(a, "n", ["is-uploaded": "0", "percent-uploaded": "0", "downloading-status": "current"])
            for path in ["e", "d", "."] { try await expect(a, path, ["is-uploaded": "0"]) }
            try await expect(b, "d/f", here)
            try await a.ubiquity("online", "")
            try await world.settle(a, b)
            try await expect(a, "n", here)
            try await expect(b, "n", away)
        }
    }

    @Test func settingIsRefusedAndCopiesOmitAttributes() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d; echo text > d/f; setfattr -n user.real -v kept d/f")
            try await world.settle(a, b)
            #expect(try await a.attempt("setfattr -n user.ubiquity.is-uploaded -v 0 d/f").status != 0)
            #expect(try await a.attempt("setfattr -x user.ubiquity.item-id d/f").status != 0)
            #expect(try await a.attempt("setfattr -n user.ubiquity.nonsense -v 0 d/f").status != 0)
            let out = world.folder + "/out"
            let git = "git -c user.name=n -c user.email=n@example.org"
            try await b.shell(
                """
                mkdir '\(out)'; cp -a d '\(out)/cp'; rsync -aX d/ '\(out)/rsync/'
                tar --xattrs --xattrs-include='*' -cf '\(out)/t.tar' d; mkdir '\(out)/tar'
                tar --xattrs --xattrs-include='*' -xf '\(out)/t.tar' -C '\(out)/tar' --strip-components=1
                cp -a d moved; mv moved '\(out)/mv'; install -D d/f '\(out)/install/f'
                zip -qr '\(out)/z.zip' d; unzip -q '\(out)/z.zip' -d '\(out)/zip'; mv '\(out)'/zip/d/f '\(out)/zip/f'
                cd d; \(git) init -q; \(git) add f; \(git) commit -qm one; \(git) clone -q . '\(out)/git'; rm -rf .git
                """)
            #expect(try await b.shell("ls -A . d") == ".:\nd\n\nd:\nf")
            for copy in ["cp", "rsync", "tar", "mv", "install", "zip", "git"] {
                #expect(try await world.shell("cat '\(out)/\(copy)/f'") == "text", "\(copy)")
                // The whole tree, with folders.
                let listed = try await world.shell("getfattr -R -d -m - '\(out)/\(copy)' 2> /dev/null")
                #expect(!listed.contains("user.ubiquity"), "\(copy): \(listed)")
                let isCarrier = ["cp", "rsync", "tar", "mv"].contains(copy)
                #expect(listed.contains("user.real=\"kept\"") == isCarrier, "\(copy): \(listed)")
            }
            #expect(try await world.shell("grep -l user.ubiquity '\(out)/t.tar' '\(out)/z.zip' || :") == "")
            // A copy back into a mount.
            try await a.shell(
                """
                cp -a '\(out)/cp' back; rsync -aX '\(out)/rsync/' back2/
                tar --xattrs --xattrs-include='*' -xf '\(out)/t.tar'; cp -a d d2; mv d2 d3; rsync -aX d/ d4/
                """)
            try await world.settle(a, b)
            let ids = try await b.shell(
                "getfattr --only-values -n user.ubiquity.item-id d/f; echo; getfattr --only-values -n user.ubiquity.item-id d3/f"
            )
            #expect(Set(ids.split(separator: "\n")).count == 2)
            #expect(try await b.shell("cat back/f back2/f d3/f d4/f") == "text\ntext\ntext\ntext")
        }
    }

    /// A copy from a file system that kept the attributes.
    @Test func copiedAttributesAreIgnored() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            let out = world.folder + "/out"
            try await world.shell(
                """
                mkdir -p '\(out)/d'; cd '\(out)'; echo text > d/f; setfattr -n user.real -v kept d/f
                for name in is-uploaded item-id downloading-status is-pinned unknown; do
                    for path in d d/f; do setfattr -n user.ubiquity.$name -v carried $path; done
                done
                setfattr -n user.ubiquity.package -v 1 d/f
                tar --xattrs --xattrs-include='*' -cf t.tar d; grep -q user.ubiquity.item-id t.tar; cp -a d moved
                """)
            try await a.shell(
                """
                cp -a '\(out)/d' cp; rsync -aX '\(out)/d/' rsync/; mv '\(out)/moved' mv; mkdir tar
                tar --xattrs --xattrs-include='*' -xf '\(out)/t.tar' -C tar --strip-components=1
                """)
            try await world.settle(a, b)
            var items = Set<String>()
            for copy in ["cp", "rsync", "mv", "tar"] {
                for path in [copy, copy + "/f"] {
                    let found = try await a.attributes(of: path)
                    #expect(Set(found.keys) == Self.names && !found.values.contains("carried"), "\(path): \(found)")
                    items.insert(found["item-id"] ?? "")
                    #expect(try await b.attribute("item-id", of: path) == found["item-id"])
                }
                #expect(try await b.shell("cat \(copy)/f; getfattr --only-values -n user.real \(copy)/f") == "text\nkept")
            }
            #expect(items.count == 8)
        }
    }

    @Test func controlAttributesAct() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 200000 /dev/urandom > f")
            try await world.settle(a, b)
            try await b.shell("setfattr -n user.ubiquity.download -v 1 f")
            try await b.waitFor("downloading-status", "current", of: "f")
            try await b.shell("setfattr -n user.ubiquity.evict -v 1 f")
            #expect(try await b.attribute("downloading-status", of: "f") == "not-downloaded")
            try await b.shell("setfattr -n user.ubiquity.pinned -v 1 f")
            #expect(try await b.attribute("is-pinned", of: "f") == "1")
            try await b.waitFor("downloading-status", "current", of: "f")
            #expect(try await b.attempt("setfattr -n user.ubiquity.evict -v 1 f").err.contains("not permitted"))
            try await b.shell("setfattr -n user.ubiquity.pinned -v 0 f")
            try await b.shell("setfattr -n user.ubiquity.evict -v 1 f")
            try await b.ubiquity("offline", "")
            try await b.shell("setfattr -n user.ubiquity.download -v 1 f")
            try await b.waitFor("download-requested", "1", of: "f")
            try await b.ubiquity("online", "")
            try await b.waitFor("downloading-status", "current", of: "f")
            #expect(try await b.attribute("download-requested", of: "f") == "0")
            #expect(try await a.attribute("is-pinned", of: "f") == "0")
        }
    }

    @Test func announcedItemIsListedAsUnavailable() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await world.settle(a, b)
            try await a.shell("head -c 100000000 /dev/urandom > f")
            try await b.waitUntil("test -e f")
            try await a.kill()
            #expect(try await b.shell("stat -c %s f") == "100000000")
            let read = try await b.attempt("cat f > /dev/null")
            #expect(read.err.contains("Resource temporarily unavailable"), "\(read)")
            #expect(try await b.attribute("is-uploaded", of: "f") == "0")
            #expect(try await b.attribute("downloading-status", of: "f") == "not-downloaded")
            #expect(try await b.attribute("downloading-error", of: "f").contains("a"))
            try await a.mount()
            try await world.settle(a, b, within: 120)
            #expect(try await b.attribute("is-uploaded", of: "f") == "1")
            #expect(try await b.attribute("downloading-error", of: "f") == "")
            try await b.shell("cmp f '\(a.mountPoint)/f'")
        }
    }

    @Test func folderKeptForExcludedItemsReportsIt() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir -p d/s; echo text > d/s/f")
            try await world.settle(a, b)
            try await b.shell("echo backup > d/s/f~")
            try await a.shell("rm -r d")
            try await world.settle(a, b)
            #expect(try await b.shell("find d -type f") == "d/s/f~")
            for folder in ["d", "d/s"] {
                try await b.waitFor("is-excluded-from-sync", "1", of: folder)
                #expect(try await b.attribute("is-uploaded", of: folder) == "0")
            }
            try await b.shell("rm d/s/f~")
            try await b.waitUntil("test ! -e d")
        }
    }
}
