import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// A program's registration with one mount's coordination. Its claims and presenters last as long as it is open.
package final class CoordinationClient: Sendable {
    /// The client's number at the daemon.
    package let number: UInt64
    private let connection: DaemonConnection
    private let stream: Task<Void, any Error>

    /// Registers the program with the daemon. `each` gets the daemon's messages one after the other.
    ///
    /// - Parameters:
    ///   - answerTime: Seconds within which the program answers questions; nil for the daemon's default (10).
    ///   - ended: Called when the daemon ends or the connection is lost. Claims and presenters are gone then.
    /// - Throws: `MountUnreachable` if the daemon does not answer or does not register programs.
    package static func open(
        stateFolder: String, name: String, answerTime: Double? = nil,
        ended: @escaping @Sendable () -> Void = {}, each: @escaping @Sendable (ClientNews) async -> Void = { _ in }
    ) async throws -> CoordinationClient {
        let connection = try DaemonConnection(stateFolder: stateFolder)
        do { try await connection.requireAnswer() } catch {
            await connection.close()
            throw error
        }
        let registration = ClientRegistration(name: name, process: ProcessHost.id, answerTime: answerTime)
        let (numbers, source) = AsyncThrowingStream.makeStream(of: UInt64.self)
        let stream = Task {
            defer { ended() }
            do {
                try await connection.takePart(registration) { news in
                    guard news.kind != .registered else {
                        if let number = news.client { source.yield(number) }
                        return
                    }
                    await each(news)
                }
                source.finish()
            } catch {
                source.finish(throwing: error)
                throw error
            }
        }
        do {
            for try await number in numbers {
                return CoordinationClient(number: number, connection: connection, stream: stream)
            }
            throw MountUnreachable(stateFolder, "its daemon does not register programs for coordination")
        } catch {
            stream.cancel()
            await connection.close()
            throw error
        }
    }

    private init(number: UInt64, connection: DaemonConnection, stream: Task<Void, any Error>) {
        self.number = number
        self.connection = connection
        self.stream = stream
    }

    /// Unregisters. The daemon drops the client's claims and presenters.
    package func close() async {
        // If this message does not reach the daemon, the end of the stream has the same effect.
        let _: Acknowledgement? = try? await connection.ask(
            ControlRoute.leave, ClientLeave(client: number), within: DaemonConnection.answerTimeout)
        stream.cancel()
        // The stream's result no longer matters.
        _ = await stream.result
        await connection.close()
    }

    // MARK: Claims

    /// Waits until the daemon grants a claim on the items.
    ///
    /// - Returns: the claim, to be given back with `end`, and the items' current paths.
    package func claim(
        _ items: [ClaimItem], presenter: UInt64? = nil, purpose: String? = nil, seconds: Double? = nil
    ) async throws -> (claim: UInt64, paths: [String]) {
        var random = SystemRandomNumberGenerator()
        let token = String(random.next() as UInt64, radix: 36)
        let wanted = ClaimMessage(
            client: number, items: items, presenter: presenter, purpose: purpose, seconds: seconds, token: token)
        let report: ClaimReport
        do { report = try await connection.claim(wanted) } catch {
            // The daemon may have granted the claim just now. Without its answer the program could never give it back.
            // A cancelled task sends nothing, so a new task withdraws the claim.
            let taken = ClaimEnd(client: number, token: token)
            Task { [connection] in
                // If the daemon cannot be reached, it has dropped this client or has ended.
                let _: Acknowledgement? = try? await connection.ask(ControlRoute.endClaim, taken)
            }
            throw error
        }
        guard let claim = report.claim else { throw UbiquityError(.invalid, "the daemon's answer contains no claim") }
        return (claim, report.paths ?? items.map(\.path))
    }

    package func end(_ claim: UInt64) async throws {
        let _: Acknowledgement = try await connection.ask(
            ControlRoute.endClaim, ClaimEnd(client: number, claim: claim), within: DaemonConnection.answerTimeout)
    }

    // MARK: Presenters

    package func present(_ path: String, abilities: [String]) async throws -> UInt64 {
        let wanted = PresenterRegistration(client: number, path: path, abilities: abilities)
        let report: PresenterReport = try await connection.ask(
            ControlRoute.presenters, wanted, within: DaemonConnection.answerTimeout)
        return report.presenter
    }

    package func stopPresenting(_ presenter: UInt64) async throws {
        let _: Acknowledgement = try await connection.ask(
            ControlRoute.removePresenter, PresenterRemoval(client: number, presenter: presenter),
            within: DaemonConnection.answerTimeout)
    }

    /// Announces that an item leaves the mount.
    ///
    /// - Parameter destination: The absolute path after the move; nil before the move.
    package func announceMove(of path: String, to destination: String?) async throws {
        let _: Acknowledgement = try await connection.ask(
            ControlRoute.moves, MoveAnnouncement(client: number, path: path, destination: destination),
            within: DaemonConnection.answerTimeout)
    }

    package func answer(_ question: UInt64, refusal: String? = nil) async throws {
        let _: Acknowledgement = try await connection.ask(
            ControlRoute.answer, PresenterAnswer(client: number, question: question, refusal: refusal),
            within: DaemonConnection.answerTimeout)
    }
}
