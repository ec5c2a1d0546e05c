internal import UbiquityCore

/// Repeats a request that a program waits for, as long as the network's limit allows: on a bad line one request of
/// three fails, and the next one may get through.
struct PatientRequest {
    let connection: Connection
    let timekeeper: any Timekeeper
    let random: any RandomSource

    /// - Parameter isWanted: whether anybody still waits; asked after each failure.
    func run<R>(while isWanted: () -> Bool = { true }, _ body: () async throws -> R) async throws -> R {
        let deadline = timekeeper.uptime() + SyncLimits.networkLimit
        var backoff = Backoff(), damaged = 0
        while true {
            do { return try await body() } catch let error as UbiquityError {
                if error.code == .damaged { damaged += 1 }
                guard mayPass(error, damaged), isWanted() else { throw error }
                let pause = min(backoff.next(random), SyncLimits.longestPatientPause)
                guard timekeeper.uptime() + pause < deadline else { throw error }
                try await timekeeper.sleep(for: pause)
            }
            try connection.requireAllowed()
        }
    }

    /// Whether a repetition may help. One that took its whole time is not repeated, nor is one to a cloud that has not
    /// been heard of for long.
    private func mayPass(_ error: UbiquityError, _ damaged: Int) -> Bool {
        switch error.code {
        case .offline, .tooManyRequests: !connection.isPaused && connection.mayBeThere
        // On the way, or at the source? A few more times tell.
        case .damaged: damaged < SyncLimits.damagedAttempts
        default: false
        }
    }
}
