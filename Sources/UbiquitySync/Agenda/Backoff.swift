package import UbiquityCore

/// The wait after a failure. It doubles with each failure, with jitter so that devices do not retry in step.
package struct Backoff: Sendable, Hashable {
    package static let shortest = Duration.milliseconds(250)
    package static let longest = Duration.seconds(30)

    package private(set) var attempts = 0

    package init() {}

    package mutating func reset() { attempts = 0 }

    /// The next wait: between half and all of `shortest * 2^attempts`, at most `longest`.
    package mutating func next(_ random: any RandomSource) -> Duration {
        let doubled = Self.shortest * (1 << min(attempts, 10))
        attempts += 1
        let bounded = min(doubled, Self.longest)
        return bounded / 2 + bounded / 2 * Double(random.next() >> 11) / Double(1 << 53)
    }
}
