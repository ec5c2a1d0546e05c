import Testing

/// A part of a real folder, through the whole life of documents on three devices.
@Suite struct DocumentTests {
    /// Files of /usr/share/doc that are copied: enough for every size and kind, few enough for a debug build.
    private static let fileCount = 600

    @Test func documentsSyncAndThreeDevicesAgree() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            let source = world.folder + "/source"
            // Symlinks first, then files, by name: the same part each time.
            try await world.shell(
                """
                mkdir '\(source)'; cd /usr/share/doc
                { find . -type l | sort | head -n 40; find . -type f | sort | head -n \(Self.fileCount); } |
                    tar -cf - -T - | tar -xf - -C '\(source)'
                """)
            try await a.shell("cp -a '\(source)' doc", within: 120)
            try await world.settle(a, b, within: 120)
            try await expectPlaceholders(of: source, on: b)
            try await b.shell("diff -r --no-dereference '\(source)' doc", within: 120)
            let left = try await b.shell(
                "find doc -type f -exec getfattr --only-values -n user.ubiquity.downloading-status {} + | sed 's/current//g'"
            )
            #expect(left.isEmpty)
            let evicted = try await b.ubiquity("evict", "doc", within: 120)
            #expect(evicted.status == 0, "\(evicted)")
            try await expectPlaceholders(of: source, on: b)
            try await edit(a, b)
            try await world.settle(a, b, within: 120)
            let c = try await world.mounted("c")
            try await world.settle(a, b, c, within: 120)
            var pictures = [String]()
            for device in [a, b, c] { pictures.append(try await Tools.picture(of: device.mountPoint, in: world)) }
            expectSame(pictures, "three devices")
            #expect(pictures[0].split(separator: "\n").count > Self.fileCount)
            for device in [a, b, c] { try await device.unmount() }
        }
    }

    private func expectPlaceholders(of source: String, on device: Device) async throws {
        let format = "-printf '%P %y %s %m %T@ %l\\n' | sort"
        let wanted = try await device.world.shell("cd '\(source)'; find . ! -type d \(format)")
        #expect(try await device.shell("cd doc; find . ! -type d \(format)") == wanted)
        let statuses = try await device.shell(
            "find doc -type f -size +0 -exec getfattr --only-values -n user.ubiquity.downloading-status {} + | sed 's/not-downloaded//g'"
        )
        #expect(statuses.isEmpty, "\(statuses.prefix(200))")
        // Half a KiB for each placeholder, and the folders.
        let kilobytes = try #require(Int(try await device.shell("du -sk doc | cut -f1")))
        #expect(kilobytes < Self.fileCount * 2)
    }

    private func edit(_ a: Device, _ b: Device) async throws {
        let list = "find doc -type f -size -20k | sort"
        try await a.shell(
            "\(list) | sed -n '3p;9p' | while read f; do vim -N -u NONE -es -c 'normal Oedited' -c wq $f; done")
        try await b.shell("\(list) | sed -n '20,29p' | while read f; do sed -i '1s/^/edited /' $f; done")
        try await a.shell("\(list) | sed -n '40,44p' | xargs -d '\\n' rm")
        try await b.shell("ls -d doc/* | sed -n '5,8p' | while read d; do mv $d $d.renamed; done")
        try await a.shell(
            "mkdir doc/new; ls -d doc/* | sed -n '12,13p' | while read d; do mv $d doc/new/; done; rm -r $(ls -d doc/a* | tail -n 1)"
        )
    }
}
