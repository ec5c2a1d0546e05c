import CFuzz

/// A part of the program that gets random input.
///
/// An execution draws all its decisions from its random numbers, and leaves no state for the next one.
package struct FuzzTarget: Sendable {
    package let name: String
    /// Executions of the test, which takes a second or so unoptimised.
    package let testExecutions: UInt64
    private let execute: @Sendable (inout FuzzRandom) throws -> Void
    private let staticName: StaticString

    init(
        _ name: StaticString, testExecutions: UInt64, _ execute: @escaping @Sendable (inout FuzzRandom) throws -> Void
    ) {
        staticName = name
        self.name = name.description
        self.testExecutions = testExecutions
        self.execute = execute
    }

    package static let all: [FuzzTarget] = wireTargets + textTargets + controlTargets + treeTargets

    package static func named(_ name: String) -> FuzzTarget? { all.first { $0.name == name } }

    /// Seconds that one execution may take in an endless run. Most executions take less than a millisecond.
    private static let timeLimit: UInt32 = 30
    /// The timer is set once for so many executions: setting it takes as long as a short execution.
    private static let watched: UInt64 = 64

    /// Runs executions. Throws `FuzzFinding` for the first one that fails.
    /// - Parameter isWatched: whether an execution that does not end aborts the process. For one run at a time.
    package func run(seed: UInt64, from: UInt64, executions: UInt64, isWatched: Bool = false) throws(FuzzFinding) {
        CFuzz_reportCrashes()
        // A literal is never freed and ends with a zero.
        staticName.withUTF8Buffer { buffer in
            buffer.baseAddress.map { CFuzz_begin(UnsafeRawPointer($0).assumingMemoryBound(to: CChar.self), seed) }
        }
        defer {
            if isWatched { CFuzz_limitTime(0) }
            CFuzz_end()
        }
        for number in from..<(from &+ executions) {
            CFuzz_execute(number)
            if isWatched, number % Self.watched == 0 || number == from { CFuzz_limitTime(Self.timeLimit) }
            var random = FuzzRandom(seed: seed, execution: number)
            do { try execute(&random) } catch {
                throw FuzzFinding(target: name, seed: seed, execution: number, reason: "\(error)")
            }
        }
    }
}

/// An execution that broke a rule.
package struct FuzzFinding: Error, CustomStringConvertible {
    package var target: String
    package var seed: UInt64
    package var execution: UInt64
    package var reason: String

    package var description: String {
        "\(reason)\nrepeat it: scripts/fuzz \(target) --seed \(seed) --from \(execution) --executions 1"
    }
}

/// A rule that an execution broke.
struct Broken: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

func require(_ holds: Bool, _ rule: @autoclosure () -> String) throws(Broken) {
    if !holds { throw Broken(rule()) }
}

func requireEqual<T: Equatable>(_ a: T, _ b: T, _ rule: @autoclosure () -> String) throws(Broken) {
    if a != b { throw Broken("\(rule()): \(a) and \(b)") }
}
