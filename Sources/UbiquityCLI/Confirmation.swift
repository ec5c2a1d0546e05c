import ArgumentParser
import UbiquityCore
import UbiquitySystem

/// The question before a command that destroys data.
struct Confirmation: ParsableArguments {
    @Flag(name: [.customShort("y"), .customLong("yes")], help: "Do it without a question.")
    var isGiven = false

    /// Asks at the terminal. Throws if the answer is not yes, or if there is nobody to ask.
    /// - Parameter action: the action, with its verb.
    func require(_ action: String) throws {
        guard !isGiven else { return }
        guard ProcessHost.isTerminal(0), ProcessHost.isTerminal(2) else {
            throw WrongUsage(
                cause: UbiquityError(
                    .invalid, "would \(Output.shown(action)): there is no terminal to ask", remedy: "give --yes"))
        }
        ProcessHost.write("ubiquity: \(Output.shown(action))? [y/N] ", to: 2)
        let line = try describing("read the answer") { () throws(Errno) in
            try StandardStreams.readLine(limit: Self.longestAnswer)
        }
        let answer = String(decoding: line, as: UTF8.self).lowercased().filter { !$0.isWhitespace }
        guard ["y", "yes"].contains(answer) else { throw UbiquityError(.cancelled, "nothing was changed") }
    }

    private static let longestAnswer = 100
}
