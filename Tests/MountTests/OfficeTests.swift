import Testing

/// Saves by LibreOffice itself, without a window.
@Suite struct OfficeTests {
    /// Opens a document, adds a word, saves it in place and exits; prints the files beside the open document.
    private static let saving = """
        import os, sys, time, uno
        from com.sun.star.beans import PropertyValue
        from com.sun.star.connection import NoConnectException
        pipe, path, word = sys.argv[1:]
        local = uno.getComponentContext()
        resolver = local.ServiceManager.createInstanceWithContext("com.sun.star.bridge.UnoUrlResolver", local)
        end = time.time() + 250
        while True:
            try:
                context = resolver.resolve(f"uno:pipe,name={pipe};urp;StarOffice.ComponentContext")
                break
            except NoConnectException:
                if time.time() > end: raise
                time.sleep(0.05)
        desktop = context.ServiceManager.createInstanceWithContext("com.sun.star.frame.Desktop", context)
        document = desktop.loadComponentFromURL("file://" + path, "_blank", 0, (PropertyValue("Hidden", 0, True, 0),))
        document.Text.insertString(document.Text.getEnd(), word, False)
        print(*sorted(os.listdir(os.path.dirname(path))))
        document.store()
        document.close(True)
        desktop.terminate()
        """

    private func office(_ arguments: String) -> String { "timeout 300 soffice --headless --norestore \(arguments)" }

    /// - Returns: the files beside the open document.
    private func save(_ path: String, adding word: String, on device: Device) async throws -> String {
        let pipe = "ubiquity-\(device.world.folder.split(separator: "/").last ?? "")-\(device.name)"
        try await device.world.shell("cat > '\(device.world.folder)/saving.py' <<'END'\n\(Self.saving)\nEND")
        return try await device.shell(
            """
            \(office("--accept='pipe,name=\(pipe);urp;'")) > /dev/null 2>&1 &
            trap 'kill $! 2> /dev/null || wait || :' EXIT
            /usr/bin/python3 '\(device.world.folder)/saving.py' \(pipe) '\(device.mountPoint)/\(path)' \(word)
            wait
            """, within: 350)
    }

    /// Converts a text to a document; replaces an existing one.
    private func convert(_ text: String, to name: String, in folder: String, on device: Device) async throws {
        try await device.shell(
            """
            printf '\(text)' > '\(device.world.folder)/\(name).txt'
            \(office("--convert-to odt --outdir \(folder) '\(device.world.folder)/\(name).txt'")) > /dev/null 2>&1
            """, within: 350)
    }

    private func text(of path: String, on device: Device) async throws -> String {
        let text = try await device.shell("\(office("--cat")) '\(path)' 2> /dev/null", within: 350)
        return text.filter { $0 != "\u{feff}" && $0 != "\n" }
    }

    @Test func officeSaveMakesOneVersion() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir Documents")
            try await convert("first", to: "f", in: "Documents", on: a)
            try await a.shell("setfattr -n user.k -v v Documents/f.odt")
            try await world.settle(a, b)
            let item = try await a.attribute("item-id", of: "Documents/f.odt")
            let before = try await world.cloudCounts()

            // Until now a placeholder.
            let beside = try await save("Documents/f.odt", adding: "second", on: b)
            #expect(beside == ".~lock.f.odt# f.odt")
            try await world.settle(b, a)
            #expect(try await world.cloudCounts() == [before[0], before[1] + 1])

            try await convert("third", to: "f", in: "Documents", on: a)
            try await world.settle(a, b)
            #expect(try await world.cloudCounts() == [before[0], before[1] + 2])

            for device in [a, b] {
                #expect(try await device.attribute("item-id", of: "Documents/f.odt") == item)
                #expect(try await device.shell("ls -A Documents; getfattr --only-values -n user.k Documents/f.odt") == "f.odt\nv")
            }
            #expect(try await text(of: "Documents/f.odt", on: b) == "third")
            let versions = try await b.shell("ls -d Documents/.versions/f.odt/*").split(separator: "\n").map(String.init)
            var texts = [String]()
            for version in versions { texts.append(try await text(of: version, on: b)) }
            #expect(texts.sorted() == ["first", "firstsecond"])
        }
    }

    @Test func concurrentOfficeSavesConflictAsWholeDocuments() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await convert("text", to: "f", in: ".", on: a)
            try await world.settle(a, b)
            try await b.shell("cat f.odt > /dev/null")
            for device in [a, b] { try await device.ubiquity("offline", "") }
            for device in [a, b] { _ = try await save("f.odt", adding: device.name, on: device) }
            for device in [a, b] { try await device.ubiquity("online", "") }
            try await world.settle(a, b)
            for device in [a, b] {
                try await device.waitFor("conflict-count", "1", of: "f.odt")
                let lost = try await device.shell("ls -d .versions/f.odt/*\\(conflict\\)*")
                #expect(try await text(of: "f.odt", on: device) == "textb")
                #expect(try await text(of: lost, on: device) == "texta")
                #expect(try await device.shell("ls -A") == "f.odt")
            }
        }
    }
}
