internal import UbiquityCore
internal import UbiquitySystem

/// A temporary folder for a test, removed when the test releases it.
package final class TemporaryFolder: Sendable {
    package let path: String

    package init() throws {
        var generator = SystemRandomNumberGenerator()
        path = "\(try FileSystem.realPath("/tmp"))/ubiquity-test-\(String(generator.next(), radix: 16))"
        try FileSystem.makeDirectory(path)
    }

    deinit { try? FileSystem.removeTree(path) }

    package func callAsFunction(_ name: String) -> String { Path.join(path, name) }

    package static func with(_ body: (String) throws -> Void) throws {
        let folder = try TemporaryFolder()
        try withExtendedLifetime(folder) { try body(folder.path) }
    }

    package static func with(
        isolation: isolated (any Actor)? = #isolation, _ body: (String) async throws -> Void
    ) async throws {
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        try await body(folder.path)
    }
}
