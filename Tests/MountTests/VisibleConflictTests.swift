import Testing

/// `mount --visible-conflicts` and its setting.
@Suite struct VisibleConflictTests {
    @Test func losingVersionShowsBesideItsDocumentUntilItIsResolved() async throws {
        try await World.run { world in
            // One device by the option, the other by the configuration.
            let a = try await world.mounted("a", "--visible-conflicts"), b = try world.device("b")
            try await world.shell("cd \"$HOME\"; mkdir -p c/ubiquity; echo 'visible-conflicts = yes' > c/ubiquity/config")
            try await b.mount(environment: ["XDG_CONFIG_HOME": world.folder + "/c"])
            try await a.shell("mkdir d; echo base > d/report.txt")
            try await world.settle(a, b)
            let entry = "report (conflict of a).txt"
            for device in [a, b] { #expect(try await device.shell("ls d; test ! -e 'd/\(entry)'") == "report.txt") }
            try await world.meet(a, "echo from a > d/report.txt", b, "echo from b > d/report.txt")
            for device in [a, b] {
                try await world.eventually("\(device.name) shows it") {
                    try await device.shell("ls d") == "\(entry)\nreport.txt"
                }
                let texts = try await device.shell("stat -c '%s %A' 'd/\(entry)'; cat 'd/\(entry)' d/report.txt")
                #expect(texts == "7 -r--r--r--\nfrom a\nfrom b")
                try await device.shell("cp 'd/\(entry)' ../copy-\(device.name); cat ../copy-\(device.name)")
                let refused = try await device.attempt("echo x > 'd/\(entry)' || mkdir 'd/\(entry)' || mv d/report.txt 'd/\(entry)'")
                #expect(refused.status != 0 && refused.err.contains("File exists"), "\(refused)")
            }
            try await a.shell("rm -f 'd/\(entry)'; test ! -e 'd/\(entry)'")
            #expect(try await a.shell("ls d") == "report.txt")
            try await world.settle(a, b)
            try await world.eventually("it ends at b") { try await b.shell("ls d") == "report.txt" }
            // A tree with an open conflict can be removed.
            try await world.meet(a, "echo more a > d/report.txt", b, "echo more b > d/report.txt")
            try await world.eventually("a shows the next one") { try await a.shell("ls d") == "\(entry)\nreport.txt" }
            try await a.shell("rm -rf d; test ! -e d")
            try await world.settle(a, b)
        }
    }
}
