import UbiquityCore

/// Which measures of scheduling the threads that serve programs use.
///
/// A FUSE server and a program that makes one small call after the other hand a few microseconds of work to each other.
/// Waking and moving their threads takes longer than the work. Each measure here shortens that, and each depends on the
/// kernel and on the machine. So each can be turned off by itself, to be measured, and all of them at once.
/// `performance/results.md` has the figures.
///
/// The mount reads the policy from its environment at the start (`UBIQUITY_SERVING`) and passes it to the threads.
package struct ServingPolicy: Hashable, Sendable {
    package enum Measure: String, CaseIterable, Sendable {
        /// A thread that waits for the index's writer spins for a moment before it sleeps (`BriefTurn`).
        case spin
        /// One thread at a time reads the FUSE device, and answers quick requests itself (`ReadingTurn`).
        case turns
        /// The reader of the FUSE device polls for the next request for a moment before it sleeps.
        case poll
        /// The reader of the FUSE device lets forgets gather for 2 ms.
        case gather
        /// A ring is served on the core of the program that waits.
        case bind
        /// The threads of the rings run in the scheduler's idle class while no program has to wait for them.
        case idle
    }

    package static let variable = "UBIQUITY_SERVING"
    package static let tuned = ServingPolicy(measures: Set(Measure.allCases))
    package static let plain = ServingPolicy(measures: [])

    package let measures: Set<Measure>

    package init(measures: Set<Measure>) { self.measures = measures }

    package func uses(_ measure: Measure) -> Bool { measures.contains(measure) }

    /// The policy that a text names: "tuned" (also for an empty text), "plain", or measures separated by commas. Names
    /// that all begin with "-" are turned off, and the others stay on.
    /// - Throws: `.invalid` for an unknown name, or for a mixture of names with and without "-".
    package init(_ text: String) throws(UbiquityError) {
        switch text {
        case "", "tuned": self = .tuned
        case "plain": self = .plain
        default:
            let words = text.split(separator: ",")
            let off = words.filter { $0.hasPrefix("-") }
            guard off.isEmpty || off.count == words.count else { throw Self.unreadable(text) }
            var named: Set<Measure> = []
            for word in words {
                guard let measure = Measure(rawValue: String(off.isEmpty ? word : word.dropFirst())) else {
                    throw Self.unreadable(text)
                }
                named.insert(measure)
            }
            measures = off.isEmpty ? named : Self.tuned.measures.subtracting(named)
        }
    }

    private static func unreadable(_ text: String) -> UbiquityError {
        let names = Measure.allCases.map(\.rawValue).joined(separator: ", ")
        return UbiquityError(
            .invalid,
            "\(variable) must be 'tuned', 'plain', or names separated by commas: \(names); or each with '-' before it",
            at: text)
    }
}
