import Testing
@testable import Ubiquity
import UbiquityControl
import UbiquitySystem
import UbiquityTestSupport

@Suite struct DaemonConnectionTests {
    /// If the accept queue of a socket is full, connect(2) fails with EAGAIN: the daemon exists and is busy.
    @Test func fullAcceptQueueIsRetried() async throws {
        let socket = try CrowdedSocket(named: ControlRoute.socketName)
        let connection = try DaemonConnection(stateFolder: socket.folder)
        // The request is refused before the queue empties, or connects later: both are correct.
        async let served: Void = BlockingPool(name: "crowd", threads: 1).run { try socket.serve() }
        let asked = Task { try await connection.requireAnswer() }
        let outcome = await asked.result
        await connection.close()
        try outcome.get()
        try await served
    }

    @Test func fullAcceptQueueTimesOut() async throws {
        let socket = try CrowdedSocket(named: ControlRoute.socketName)
        let connection = try DaemonConnection(stateFolder: socket.folder)
        let failure = await #expect(throws: MountUnreachable.self) { try await connection.requireAnswer() }
        #expect(failure?.description.contains("does not answer, though it runs") == true)
        await connection.close()
    }
}
