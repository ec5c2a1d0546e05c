import Testing

/// Impossible limits on the command line.
@Suite struct LimitTests {
    @Test func impossibleLimitsAreRefusedWithTheAllowedRange() async throws {
        try await World.run { world in
            let a = try world.device("a")
            let mount = ["mount", "--state", a.state], serve = ["serve", "--data", world.folder + "/d"]
            let cases: [(words: [String], says: String)] = [
                (mount + ["--cache-limit", "0", a.mountPoint], "at least 1.0 MiB and at most"),
                (mount + ["--cache-limit", "4000P", a.mountPoint], "the size of the disk"),
                (mount + ["--cache-limit=-5", a.mountPoint], "for example 512M, 10G"),
                (mount + ["--cache-limit", "10X", a.mountPoint], "for example 512M, 10G"),
                (mount + ["--disk-floor", "4000P", a.mountPoint], "0 or more and less than"),
                (mount + ["--disk-floor=-1G", a.mountPoint], "for example 512M, 10G"),
                (serve + ["--quota", "0"], "1 byte or more"), (serve + ["--quota", "5 apples"], "for example 512M, 10G"),
                (serve + ["--keep=-1"], "from 0 to 36525"), (serve + ["--keep", "1e300"], "from 0 to 36525"),
                (serve + ["--keep-versions=-1"], "0 or more"),
                (["wait", "--timeout", "1e300", a.mountPoint], "from 0 to 100000000"),
                (["wait", "--timeout", "nan", a.mountPoint], "from 0 to 100000000"),
            ]
            for (words, says) in cases {
                let outcome = try await world.attempt([World.program] + words)
                #expect(outcome.status == 2 && outcome.err.contains(says), "\(words.suffix(3)): \(outcome)")
            }
            #expect(try await world.attempt(["test", "-e", a.state]).status == 1)
        }
    }
}
