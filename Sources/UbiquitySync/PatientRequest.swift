internal import UbiquityCore

/// Repeats a request that a program waits for, within the network limit. On a bad connection one request of three
/// fails, and the next may succeed.
struct PatientRequest {
    let connection: Connection
    let timekeeper: any Timekeeper
    let random: any RandomSource

    /// - Parameter isWanted: whether anybody still waits. Called after each failure.
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

    /// Whether a repetition may help. A request that timed out is not repeated. Neither is one to a cloud that has not
    /// answered for long.
    private func mayPass(_ error: UbiquityError, _ damaged: Int) -> Bool {
        switch error.code {
        case .offline, .tooManyRequests: !connection.isPaused && connection.mayBeThere
        // Damage in transit passes, and damage at the source does not: a few more attempts decide.
        case .damaged: damaged < SyncLimits.damagedAttempts
        default: false
        }
    }
}
