import Glibc
import Testing
@testable import UbiquitySystem
import UbiquityTestSupport

@Suite struct ServiceManagerTests {
    /// A datagram socket as systemd has it.
    private struct Manager {
        let socket: FileDescriptor

        init(path: String) throws {
            socket = FileDescriptor(owning: try check(Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)))
            var name = sockaddr_un()
            name.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
            let length = socklen_t(MemoryLayout<sockaddr_un>.size)
            _ = try withUnsafePointer(to: &name) { name throws(Errno) in
                try name.withMemoryRebound(to: sockaddr.self, capacity: 1) { name throws(Errno) in
                    try check(bind(socket.rawValue, name, length))
                }
            }
        }

        /// The next message; nil if there is none.
        func next() throws -> String? {
            guard try socket.waitUntilReadable(milliseconds: 0) else { return nil }
            return String(decoding: try socket.readSome(count: 4096), as: UTF8.self)
        }
    }

    @Test func messagesReachTheManagerAsOneDatagram() throws {
        let folder = try TemporaryFolder()
        let manager = try Manager(path: folder.path + "/notify")
        let service = try #require(ServiceManager { $0 == "NOTIFY_SOCKET" ? folder.path + "/notify" : nil })
        service.send(.ready, .status("3 items\nSTOPPING=1"), .watchdog)
        #expect(try manager.next() == "READY=1\nSTATUS=3 items STOPPING=1\nWATCHDOG=1")
        #expect(try manager.next() == nil)
        #expect(!service.watches)
    }

    @Test func processWithoutManagerHasNone() {
        #expect(ServiceManager(variable: { _ in nil }) == nil)
        #expect(ServiceManager(variable: { $0 == "NOTIFY_SOCKET" ? "relative" : nil }) == nil)
    }

    @Test func watchdogOfAnotherProcessIsIgnored() throws {
        var variables = ["NOTIFY_SOCKET": "/nowhere/notify", "WATCHDOG_USEC": "1000000"]
        #expect(try #require(ServiceManager { variables[$0] }).watches)
        variables["WATCHDOG_PID"] = "1"
        let service = try #require(ServiceManager { variables[$0] })
        #expect(!service.watches)
        // Nobody listens: the message is lost, and nothing fails.
        service.send(.ready)
    }
}
