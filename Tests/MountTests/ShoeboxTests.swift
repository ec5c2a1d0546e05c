import Testing

/// The example program of the synced database.
@Suite struct ShoeboxTests {
    private var shoebox: String {
        World.program.split(separator: "/").dropLast().map { "/\($0)" }.joined() + "/shoebox"
    }

    @Test("CD-01, CD-06, CD-11, CD-14, DC-05: the example: two devices share a shoebox of photos")
    func shoeboxExample() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 100000 /dev/zero > ../lake.jpg")
            try await a.shell("'\(shoebox)' . add ../lake.jpg Holiday")
            try await world.settle(a, b)
            #expect(try await b.shell("'\(shoebox)' . list").hasPrefix("lake.jpg\tHoliday"))
            // The local database never travels; the log does.
            #expect(try await b.shell("ls Shoebox.logs") == "devices\nlogs")
            try await a.shell("'\(shoebox)' . rate lake.jpg 5")
            try await b.shell("'\(shoebox)' . tag lake.jpg water")
            try await world.settle(a, b)
            for device in [a, b] {
                #expect(try await device.shell("'\(shoebox)' . list").hasPrefix("lake.jpg\tHoliday\t*****\twater"))
            }
            #expect(try await b.shell("'\(shoebox)' . show lake.jpg") == "100000 bytes")
        }
    }
}
