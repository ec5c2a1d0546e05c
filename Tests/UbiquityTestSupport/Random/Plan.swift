internal import UbiquitySync
internal import UbiquitySystem

/// Everything that is drawn from a seed before a world begins: the devices, and the events with their times.
package struct Plan: Sendable {
    package var seed: UInt64
    package var profile: Profile
    package var devices: Int
    package var rounds: Int
    package var steps: [Step]

    /// The plan of a seed.
    ///
    /// - Parameter kind: The kind of world; nil for the seed's own.
    package init(seed: UInt64, kind: Profile? = nil) {
        let random = SeededRandom(seed &* 0x9E37_79B9_7F4A_7C15 &+ 1)
        self.seed = seed
        profile = kind ?? Profile.of(seed)
        devices = 2 + random.below(profile.devices - 1)
        rounds = 1 + random.below(profile.rounds)
        steps = []
        for round in 0..<rounds {
            for device in 0..<devices {
                steps += Self.steps(profile.programs, profile.programSteps, random, round, device, profile.pause)
                steps += Self.steps(profile.mishaps, profile.mishapSteps, random, round, device, profile.pause * 3)
            }
        }
    }

    private static func steps(
        _ weights: [(Action, Int)], _ count: Int, _ random: SeededRandom, _ round: Int, _ device: Int,
        _ pause: Duration
    ) -> [Step] {
        let total = weights.reduce(0) { $0 + $1.1 }
        guard total > 0 else { return [] }
        var time = Duration.zero
        return (0..<count).map { _ in
            time += random.duration(.milliseconds(1)...pause)
            var draw = random.below(total)
            let chosen = weights.first { weight in
                draw -= weight.1
                return draw < 0
            }
            return Step(
                round: round, time: time, device: device, action: chosen?.0 ?? .read, seed: random.next())
        }
    }

    package static let names = ["a", "b", "c", "d", "e"]

    package var options: Simulation.Options {
        let random = SeededRandom(seed &+ 77)
        var settings: [String: SimulatedDevice.Settings] = [:]
        for name in Self.names.prefix(devices) where profile.hasSkew {
            settings[name] = SimulatedDevice.Settings(
                policy: random.chance(0.25) ? .eager : .lazy,
                // Seconds; sometimes a clock is a year off.
                skew: .seconds(
                    random.chance(0.1) ? 31_536_000 * (1 - 2 * random.below(2)) : random.below(600) - 300),
                cacheLimit: random.chance(0.25) ? 100_000 : nil)
        }
        if profile == .folders {
            // Small commits: related changes are often separated.
            settings[Self.names[0], default: .init()].changesPerCommit = [2, 5, 20, 1000][Int(seed / 20 % 4)]
            settings[Self.names[0], default: .init()].allowsMassDelete = true
            settings[Self.names[0], default: .init()].isBusy = true
        }
        var options = Simulation.Options(
            devices: Array(Self.names.prefix(devices)), settings: settings,
            losesPower: profile == .masses
                || steps.contains { [.losePower, .losePowerAtWrite, .editAndDie].contains($0.action) },
            hasCloudOnDisk: profile == .cloud,
            // A document that one process removes and creates again is the same document. With two processes it is
            // another.
            process: seed.isMultiple(of: 2) ? ProcessHost.id : 0)
        if profile == .hostile {
            options.isCloudHostile = true
            // An eager device waits for every content. A hostile cloud announces contents that do not exist.
            for name in options.devices { options.settings[name, default: .init()].policy = .lazy }
        }
        return options
    }

    /// The same plan with only some of the steps.
    package func with(_ steps: [Step]) -> Plan {
        var plan = self
        plan.steps = steps
        plan.rounds = (steps.map(\.round).max() ?? 0) + 1
        return plan
    }
}
