import UbiquityCore
import UbiquitySystem

/// A folder of its own for a test, removed when the test lets go of it.
final class TemporaryFolder: Sendable {
    let path: String

    init() throws {
        var generator = SystemRandomNumberGenerator()
        path = "/tmp/ubiquity-test-\(String(generator.next(), radix: 16))"
        try FileSystem.makeDirectory(path)
    }

    deinit { try? FileSystem.removeTree(path) }

    func callAsFunction(_ name: String) -> String { Path.join(path, name) }
}
