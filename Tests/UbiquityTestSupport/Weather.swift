internal import UbiquityCore

/// What happens to a device by itself, drawn from the seed: bad networks, none at all, crashes.
package struct Weather: Sendable {
    private let device: SimulatedDevice
    private var random: SeededRandom { device.world.random }

    package init(_ device: SimulatedDevice) { self.device = device }

    package func change(_ times: Int, pause: ClosedRange<Duration>) async throws {
        for _ in 0..<times {
            try await device.world.sleep(for: random.duration(pause))
            switch random.below(10) {
            case 0...1: device.link.setConditions(.perfect)
            case 2...4: device.link.setConditions(.bad)
            case 5: device.link.setAway(true)
            case 6: device.link.setAway(false)
            case 7: if device.isRunning { try device.setPaused(random.chance(0.4)) }
            default: try await crashAndRestart()
            }
        }
    }

    private func crashAndRestart() async throws {
        if device.isRunning { device.crash(powerLoss: random.chance(0.3)) }
        try await device.world.sleep(for: random.duration(.milliseconds(1)...(.seconds(10))))
        if !device.isRunning { try device.start() }
    }
}
