import Glibc
import Testing
@testable import UbiquitySystem
import UbiquityTestSupport

/// Users at the other end of Unix sockets.
@Suite struct SocketPeerTests {
    @Test func peerOfAConnectionIsTheListener() throws {
        let folder = try TemporaryFolder(), path = folder("s")
        let listener = try listen(path)
        let peer = try #require(LocalSocket.listener(path))
        #expect(peer == SocketPeer(process: getpid(), user: geteuid(), group: getegid()))
        #expect(peer.isOwnUser)
        #expect(!SocketPeer(process: 1, user: geteuid() + 1, group: 0).isOwnUser)
        withExtendedLifetime(listener) {}
    }

    @Test func missingSocketHasNoListener() throws {
        let folder = try TemporaryFolder()
        #expect(LocalSocket.listener(folder("none")) == nil)
    }

    @Test func usersAreNamedWithTheirNumbers() {
        #expect(UserName.text(0) == "root (0)")
        #expect(UserName.text(4_000_000_123) == "user 4000000123")
    }

    private func listen(_ path: String) throws -> FileDescriptor {
        let listener = FileDescriptor(owning: socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0))
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let length = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = withUnsafePointer(to: &name) { name in
            name.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listener.rawValue, $0, length) }
        }
        #expect(result == 0 && Glibc.listen(listener.rawValue, 4) == 0)
        return listener
    }
}
