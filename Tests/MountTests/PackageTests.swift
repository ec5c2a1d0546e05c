import Testing
import UbiquityControl

/// Folders that are one document, on two devices.
@Suite struct PackageTests {
    /// The package's state on a device: a letter for each member that has one, all the same in a whole state.
    private static let letters = "cat *.pages/* 2>/dev/null | fold -w1 | sort -u | tr -d '\\n'"

    @Test func packageIsSeenInOneState() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            let save = { (letter: String) in
                "mkdir -p d.pages; for n in $(seq 12); do head -c 200000 /dev/zero | tr '\\0' \(letter) > d.pages/$n; done"
            }
            try await a.shell(save("x"))
            try await world.settle(a, b)
            #expect(try await b.shell("ls d.pages | wc -l; \(Self.letters)") == "12\nx")
            #expect(try await b.attribute("is-package", of: "d.pages") == "1")
            #expect(try await b.attribute("downloading-status", of: "d.pages") == "current")
            // Reads continuously during the other device's saves.
            let (seenFile, end) = ("\(world.folder)/seen", "\(world.folder)/end")
            let watching = try b.start("until [ -e '\(end)' ]; do \(Self.letters); echo; done > '\(seenFile)'")
            func isSeen(_ letters: String) async throws -> Bool {
                try await world.attempt(["grep", "-qx", letters, seenFile]).status == 0
            }
            try await world.eventually("the old state is seen") { try await isSeen("x") }
            try await a.shell(save("y") + "; rm d.pages/12; echo -n y > d.pages/new")
            try await world.settle(a, b)
            try await world.eventually("the new state is seen") { try await isSeen("y") }
            try await world.shell(": > '\(end)'")
            _ = try await watching.finish()
            #expect(try await b.shell("ls d.pages | wc -l; \(Self.letters)") == "12\ny")
            let seen = try await world.shell("sort -u '\(seenFile)' | grep -v '^$' | tr '\\n' ' '")
            // One pass over the files may begin before the exchange and end after it.
            #expect(["x xy y ", "x y "].contains(seen), "\(seen)")
            #expect(try await world.shell("grep -c '^xy$' '\(seenFile)' || :") <= "1")
        }
    }

    @Test func markMakesAFolderAPackage() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d; setfattr -n user.ubiquity.package -v 1 d; echo 1 > d/1; cp -a d e")
            try await world.settle(a, b)
            for path in ["d", "e"] {
                #expect(try await b.attribute("is-package", of: path) == "1")
                #expect(try await a.attribute("is-uploaded", of: path) == "1")
            }
            try await a.ubiquity("offline", "")
            try await a.shell("echo 2 > d/2")
            #expect(try await a.attribute("is-uploaded", of: "d") == "0")
            try await b.shell("setfattr -x user.ubiquity.package e")
            #expect(try await b.attribute("is-package", of: "e") == "0")
        }
    }

    /// In addition to the standard extensions; files that the same configuration ignores stay on their device.
    @Test func configuredExtensionIsAPackage() async throws {
        try await World.run { world in
            try await world.shell(
                """
                mkdir -p "$HOME/.config/ubiquity"
                printf 'package = box\\nignore = *.part\\n' > "$HOME/.config/ubiquity/config"
                """)
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir a.box a.crate a.rtfd; echo 1 > a.box/1; echo 1 > a.box/x.part; echo 1 > x.part")
            try await world.settle(a, b)
            for device in [a, b] {
                for (path, isPackage) in [("a.box", "1"), ("a.rtfd", "1"), ("a.crate", "0")] {
                    #expect(try await device.attribute("is-package", of: path) == isPackage, "\(path) on \(device.name)")
                }
            }
            #expect(try await a.attribute("is-excluded-from-sync", of: "x.part") == "1")
            #expect(try await b.shell("ls -A . a.box") == ".:\na.box\na.crate\na.rtfd\n\na.box:\n1")
        }
    }

    /// A package is downloaded when all its members are, and uploaded when all its members are.
    @Test func packageStateCoversAllMembers() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir -p d.rtfd/images; for f in text images/one; do head -c 100000 /dev/urandom > d.rtfd/$f; done")
            try await world.settle(a, b)
            func expect(_ device: Device, _ path: String, _ values: [String: String]) async throws {
                let found = try await device.attributes(of: path)
                for (name, value) in values { #expect(found[name] == value, "\(name) of \(path) on \(device.name)") }
            }
            let here = ["downloading-status": "current", "percent-downloaded": "100"]
            let up = ["is-uploaded": "1", "percent-uploaded": "100"]
            for device in [a, b] { try await expect(device, "d.rtfd", up) }
            try await expect(a, "d.rtfd", here)
            try await expect(b, "d.rtfd", ["downloading-status": "not-downloaded", "percent-downloaded": "0"])
            try await b.shell("cat d.rtfd/text > /dev/null")
            try await b.waitFor("downloading-status", "current", of: "d.rtfd/text")
            try await expect(b, "d.rtfd", ["downloading-status": "not-downloaded", "percent-downloaded": "50"])
            try await b.shell("cat d.rtfd/images/one > /dev/null")
            try await b.waitFor("downloading-status", "current", of: "d.rtfd")
            try await expect(b, "d.rtfd", here.merging(up) { $1 })

            // One of its members, in place.
            try await a.ubiquity("offline", "")
            try await a.shell("printf changed | dd of=d.rtfd/images/one conv=notrunc status=none")
            for (path, isUp) in [("d.rtfd", "0"), ("d.rtfd/images/one", "0"), ("d.rtfd/text", "1")] {
                try await expect(a, path, ["is-uploaded": isUp])
            }
            try await expect(a, "d.rtfd", here)
            try await expect(b, "d.rtfd", up)
            try await a.ubiquity("online", "")
            try await world.settle(a, b)
            for device in [a, b] { try await expect(device, "d.rtfd", here.merging(up) { $1 }) }
            #expect(try await b.shell("head -c 7 d.rtfd/images/one") == "changed")
        }
    }

    private static let versions = ".versions/d.rtfd"

    /// Both change other members of one package offline, `b` later; `b` uploads first.
    private func conflict(_ world: World, _ a: Device, _ b: Device, _ text: String) async throws {
        try await world.meet(
            a, "echo 'a \(text)' > d.rtfd/text; rm -f d.rtfd/ofB; echo a > d.rtfd/images/ofA",
            b, "echo 'b \(text)' > d.rtfd/images/one; rm -f d.rtfd/images/ofA; echo b > d.rtfd/ofB")
        for device in [a, b] {
            #expect(try await device.shell("cat d.rtfd/images/one d.rtfd/ofB") == "b \(text)\nb")
            #expect(try await device.shell("ls d.rtfd/images") == "one")
            #expect(try await device.attribute("conflict-count", of: "d.rtfd") == "1")
            #expect(try await device.attribute("has-unresolved-conflicts", of: ".") == "1")
        }
    }

    private func expectResolved(_ devices: Device...) async throws {
        for device in devices {
            #expect(try await device.shell("ls \(Self.versions) 2>/dev/null || :") == "")
            #expect(try await device.attribute("conflict-count", of: ".") == "0")
        }
    }

    /// A resolution waits 10 s for a writer, and 10 s for an upload. On a busy machine both may take longer: then the
    /// test retries.
    private func resolve(_ path: String, keeping choice: String, _ device: Device) async throws {
        try await device.world.eventually("the conflict is resolved", within: 120) {
            let outcome = try await device.ubiquity("resolve", path, options: ["--keep", choice])
            if outcome.status == 0 { return true }
            return try await device.attribute("conflict-count", of: path) == "0"
        }
    }

    @Test func conflictKeepsTheWholePackage() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("laptop"), try await world.mounted("desk"))
            try await a.shell(
                "mkdir -p d.rtfd/images; echo base > d.rtfd/text; echo base > d.rtfd/images/one; ln -s text d.rtfd/link")
            try await world.settle(a, b)
            try await b.shell("cat d.rtfd/text d.rtfd/images/one")

            try await conflict(world, a, b, "1")
            for device in [a, b] {
                let name = try await device.shell("ls \(Self.versions)")
                #expect(name.hasSuffix("Z laptop (conflict).rtfd"))
                try await device.shell("cp -r \(Self.versions)/* '\(world.folder)/\(device.name)-out'")
                #expect(
                    try await world.shell(
                        "cd '\(world.folder)/\(device.name)-out'; cat text images/one images/ofA; readlink link; ls")
                        == "a 1\nbase\na\ntext\nimages\nlink\ntext")
                #expect(try await device.shell("find . -name .versions; find \(Self.versions) -type f | wc -l") == "3")
            }
            try await b.python(
                """
                version = '.versions/d.rtfd/' + os.listdir('.versions/d.rtfd')[0]
                fails('EPERM', lambda: open(version + '/new', 'w'))
                fails('EPERM', lambda: open(version + '/text', 'w'))
                fails('ENOTEMPTY', lambda: os.rmdir(version))
                """)
            #expect(try await b.ubiquity("versions", "d.rtfd").text.contains("laptop"))
            try await b.shell("rm -r \(Self.versions)/*")
            try await world.settle(b, a)
            try await expectResolved(a, b)

            try await conflict(world, a, b, "2")
            try await resolve("d.rtfd", keeping: "both", b)
            try await world.settle(b, a)
            try await expectResolved(a, b)
            #expect(try await a.shell("cat 'd (laptop).rtfd/text' 'd (laptop).rtfd/images/ofA'") == "a 2\na")

            try await conflict(world, a, b, "3")
            let name = try await a.shell("ls \(Self.versions)")
            // The resolution waits for a writer in the package.
            let writer = try a.start("exec 3<> d.rtfd/text; echo open; exec sleep 2")
            try await world.eventually("it has it open") { writer.outputSoFar == "open\n" }
            try await resolve("d.rtfd", keeping: name, a)
            try await world.settle(a, b)
            try await expectResolved(a, b)
            for device in [a, b] {
                #expect(try await device.shell("cat d.rtfd/text d.rtfd/images/ofA; ls d.rtfd") == "a 3\na\nimages\nlink\ntext")
            }

            try await conflict(world, a, b, "4")
            // Like `mv` into a folder, which first tries to rename each member.
            try await b.shell("mv -T \(Self.versions)/* moved.rtfd")
            try await world.settle(b, a)
            try await expectResolved(a, b)
            #expect(try await a.shell("cat moved.rtfd/text") == "a 4")

            try await conflict(world, a, b, "5")
            try await a.shell("setfattr -n user.ubiquity.resolved -v 1 \(Self.versions)/*")
            try await world.settle(a, b)
            try await expectResolved(a, b)

            // Also if it is a plain folder by then.
            try await conflict(world, a, b, "6")
            try await a.shell("mv d.rtfd plain")
            #expect(try await a.ubiquity("versions", "plain").text.contains("laptop"))
            #expect(try await a.ubiquity("resolve", "plain", options: ["--keep", "current"]).status == 0)
            try await world.settle(a, b)
            for device in [a, b] { #expect(try await device.attribute("conflict-count", of: ".") == "0") }
            #expect(try await a.ubiquity("versions", ".").status == 1)
        }
    }

    /// A close may come long after the last write: from a program that keeps the file open, or on a busy machine.
    @Test func laterWriteWinsOverLaterClose() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("laptop"), try await world.mounted("desk"))
            try await a.shell("mkdir d.rtfd; echo base > d.rtfd/text; echo base > d.rtfd/one")
            try await world.settle(a, b)
            try await b.shell("cat d.rtfd/text d.rtfd/one")
            for device in [a, b] { try await device.ubiquity("offline", "") }
            let end = "\(world.folder)/end"
            let writer = try a.start(
                "exec 3> d.rtfd/new; echo a > d.rtfd/text; echo a >&3; echo written; until [ -e '\(end)' ]; do sleep 0.02; done")
            try await world.eventually("it has written") { writer.outputSoFar == "written\n" }
            try await b.shell("echo b > d.rtfd/one")
            try await world.shell(": > '\(end)'")
            _ = try await writer.finish()
            for device in [b, a] {
                try await device.ubiquity("online", "")
                try await device.waitUntilIdle()
            }
            try await world.settle(a, b)
            for device in [a, b] {
                #expect(try await device.shell("cd d.rtfd; cat text one; ls") == "base\nb\none\ntext")
                #expect(try await device.shell("ls \(Self.versions)").contains(" laptop (conflict)"))
                #expect(try await device.shell("cat \(Self.versions)/*/new") == "a")
            }
        }
    }

    @Test func losingStateKeepsAttributesAndPermissions() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("laptop"), try await world.mounted("desk"))
            try await a.shell(
                "mkdir -p d.rtfd/images; echo base > d.rtfd/text; echo same > d.rtfd/same; echo base > d.rtfd/images/one")
            try await world.settle(a, b)
            try await b.shell("cat d.rtfd/text d.rtfd/same d.rtfd/images/one")

            try await world.meet(
                a,
                """
                echo 'a' > d.rtfd/text; chmod 600 d.rtfd/text
                for f in text same images; do setfattr -n user.tag -v "a $f" d.rtfd/$f; done
                """,
                b, "echo 'b' > d.rtfd/images/one; setfattr -n user.tag -v b d.rtfd/same; setfattr -n user.b -v b d.rtfd/same")
            let tag = "getfattr --only-values -n user.tag", version = Self.versions + "/*"
            for device in [a, b] {
                #expect(try await device.shell("\(tag) d.rtfd/same") == "b")
                for name in ["text", "same", "images"] {
                    #expect(try await device.shell("\(tag) \(version)/\(name)") == "a \(name)")
                }
                #expect(try await device.shell("getfattr -m - \(version)/same | grep user") == "user.tag")
                try await device.shell("cp -a \(version) '\(world.folder)/\(device.name)-out'")
                let out = "cd '\(world.folder)/\(device.name)-out'; stat -c %a text; \(tag) same"
                #expect(try await world.shell(out) == "600\na same")
            }

            let name = try await a.shell("ls \(Self.versions)")
            try await b.ubiquity("resolve", "d.rtfd", options: ["--keep", name])
            try await world.settle(b, a)
            try await expectResolved(a, b)
            for device in [a, b] {
                for name in ["text", "same", "images"] {
                    #expect(try await device.shell("\(tag) d.rtfd/\(name)") == "a \(name)")
                }
                #expect(try await device.shell("getfattr -m '^user.b$' d.rtfd/same") == "")
                #expect(try await device.shell("stat -c %a d.rtfd/text; cat d.rtfd/text") == "600\na")
            }
        }
    }

    @Test func commandsResolveAWholePackage() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("laptop"), try await world.mounted("desk"))
            try await a.shell("mkdir -p d.rtfd/images; echo base > d.rtfd/text; echo base > d.rtfd/images/one")
            try await world.settle(a, b)
            try await b.shell("cat d.rtfd/text d.rtfd/images/one")
            let path = a.mountPoint + "/d.rtfd"

            try await conflict(world, a, b, "1")
            #expect(try await b.ubiquity("resolve", "d.rtfd", options: ["--keep", "current"]).status == 0)
            try await world.settle(b, a)
            try await expectResolved(a, b)
            for device in [a, b] { #expect(try await device.shell("cat d.rtfd/text; ls d.rtfd") == "base\nimages\nofB\ntext") }

            try await conflict(world, a, b, "2")
            let listed = try await a.ubiquity("versions", "d.rtfd", options: ["--json"]).text
            let versions = try ControlCodec.decode(VersionsReport.self, from: listed.utf8).versions
            let lost = try #require(versions.first { $0.kind == .conflict }).id
            let beside = try await world.ubiquity("restore", path, lost, "--to", a.mountPoint + "/copy.rtfd")
            #expect(beside.status == 0, "\(beside)")
            try await world.settle(a, b)
            // Both are kept.
            for device in [a, b] {
                #expect(
                    try await device.shell("cat copy.rtfd/text; ls copy.rtfd; ls copy.rtfd/images")
                        == "a 2\nimages\ntext\nofA\none")
            }
            try await expectResolved(a, b)
            #expect(try await world.ubiquity("restore", path, "ffffffff").status == 1)
            // Without the network nothing is restored in part; a resolved state can be restored.
            try await b.ubiquity("offline", "")
            let failed = try await world.ubiquity("restore", b.mountPoint + "/d.rtfd", lost)
            #expect(failed.status != 0, "\(failed)")
            #expect(try await b.shell("cat d.rtfd/text d.rtfd/images/one; ls d.rtfd/images") == "base\nb 2\none")
            try await b.ubiquity("online", "")
            #expect(try await world.ubiquity("restore", path, lost).status == 0)
            try await world.settle(a, b)
            try await expectResolved(a, b)
            for device in [a, b] {
                #expect(
                    try await device.shell("cat d.rtfd/text d.rtfd/images/one; ls d.rtfd d.rtfd/images | xargs")
                        == "a 2\nb 1\nd.rtfd: images text d.rtfd/images: ofA one")
            }

            // A file with a conflict of its own that moved into a package is resolved with the package.
            for (text, resolve) in [("3", "ubiquity"), ("4", "setfattr")] {
                try await a.shell("echo \(text) > f")
                try await world.settle(a, b)
                try await world.meet(a, "echo a > f", b, "echo b > f")
                try await a.shell("mv f d.rtfd/f")
                try await world.settle(a, b)
                for device in [a, b] { #expect(try await device.attribute("conflict-count", of: "d.rtfd") == "1") }
                if resolve == "ubiquity" {
                    #expect(try await b.ubiquity("resolve", "d.rtfd", options: ["--keep", "current"]).status == 0)
                } else {
                    try await b.shell("setfattr -n user.ubiquity.resolved -v 1 d.rtfd")
                }
                try await world.settle(b, a)
                for device in [a, b] { #expect(try await device.attribute("conflict-count", of: "d.rtfd") == "0") }
                try await a.shell("rm d.rtfd/f")
            }
            // A file in a folder that is no package any more is resolved by itself.
            try await conflict(world, a, b, "5")
            try await a.shell("mv d.rtfd d; echo 5 > d/f")
            try await world.settle(a, b)
            try await world.meet(a, "echo a > d/f", b, "echo b > d/f")
            #expect(try await b.ubiquity("resolve", "d", options: ["--keep", "current"]).out.contains("resolved 1 conflict"))
            try await world.settle(b, a)
            for device in [a, b] { #expect(try await device.attribute("conflict-count", of: "d") == "1") }
        }
    }
}
