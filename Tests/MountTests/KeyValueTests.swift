import Glibc
import Testing

/// The key-value store from the command line.
@Suite struct KeyValueTests {
    private static func kv(_ arguments: String) -> String { "'\(World.program)' kv \(arguments)" }

    @Test("KV-01, KV-11: a set on one device is a line of the other's watch, and its value there")
    func setReachesTheOtherDevice() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell(Self.kv("sync"))
            try await b.shell(Self.kv("sync"))
            let watch = try b.start("exec " + Self.kv("watch"))
            // The watch may begin after the first sets.
            let count = LockedCount()
            try await world.eventually("the watch prints the change") {
                let number = count.next()
                try await a.shell(Self.kv("set theme dark\(number)"))
                return watch.outputSoFar.contains("server-change  theme\n")
            }
            try await a.shell(Self.kv("set place 'page 12'"))
            try await world.eventually("b has the value") {
                try await b.attempt(Self.kv("get place")).text == "page 12"
            }
            #expect(try await a.shell("head -c 1048576 /dev/zero | \(Self.kv("set big --type data --store x"))") == "")
            let full = try await a.attempt("echo a | \(Self.kv("set more --store x"))")
            #expect(full.status == 1)
            #expect(try await a.shell(Self.kv("list --store x")).hasPrefix("big"))
            watch.signal(SIGINT)
            try await watch.finish()
        }
    }

    @Test("KV-08, KV-10: a set without a cloud survives kill -9, and is sent later")
    func setSurvivesKill() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell(Self.kv("sync"))
            try await a.ubiquity("offline", "")
            try await a.shell(Self.kv("set level 7 --type number"))
            try await a.killAndMount()
            #expect(try await a.shell(Self.kv("get level")) == "7")
            try await world.eventually("b has the value") {
                try await b.attempt(Self.kv("get level")).text == "7"
            }
        }
    }
}

private final class LockedCount: @unchecked Sendable {
    // One closure at a time uses it.
    private var count = 0
    func next() -> Int {
        count += 1
        return count
    }
}
