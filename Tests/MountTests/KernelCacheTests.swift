import Foundation
import Testing

/// What the kernel knows it does not ask the daemon again.
@Suite struct KernelCacheTests {
    /// Reads that the daemon has done: each request of the kernel is one, and little else reads while all is quiet.
    private func reads(_ device: Device) throws -> Int {
        let process = try #require(device.processID)
        let text = try String(contentsOfFile: "/proc/\(process)/io", encoding: .utf8)
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("syscr:") })
        return try #require(Int(line.split(separator: " ")[1]))
    }

    private func requests(_ device: Device, _ program: String) async throws -> Int {
        // Once to have all of it known.
        try await device.python(program)
        let before = try reads(device)
        try await device.python(program)
        return try reads(device) - before
    }

    @Test func whatIsKnownIsNotAskedAgain() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("mkdir d; cd d; for n in $(seq 300); do echo $n > $n; done")
            try await world.settle(a)
            try await a.ubiquity("offline", "")
            // 3,000 questions; a few reads come from the timers, the status and what belongs to starting Python.
            let stats = try await requests(
                a, "for _ in range(5):\n for n in range(600):\n  os.path.exists(f'd/{n + 1}')")
            #expect(stats < 300)
            // A listing costs its opening and closing.
            let listings = try await requests(a, "for _ in range(50): sum(e.stat().st_size for e in os.scandir('d'))")
            #expect(listings < 50 * 2 + 300)
        }
    }
}
