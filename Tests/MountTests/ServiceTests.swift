import Foundation
import Glibc
import Testing

/// The daemon under a service manager, and the helper of mount(8).
@Suite struct ServiceTests {
    @Test func serviceManagerHearsWhenTheMountIsUsableAndWhenItEnds() async throws {
        try await World.run { world in
            let a = try world.device("a")
            let manager = try world.start(["/usr/bin/python3", "-uc", Self.manager, "\(world.folder)/notify"])
            try await world.eventually("the manager listens") { manager.outputSoFar == "listening\n" }
            try FileManager.default.createDirectory(atPath: a.mountPoint, withIntermediateDirectories: true)
            let daemon = try world.start(
                [World.program, "mount", "--state", a.state, "--disk-floor", "0", "--foreground", a.mountPoint],
                environment: ["NOTIFY_SOCKET": "\(world.folder)/notify", "WATCHDOG_USEC": "60000000"])
            try await world.eventually("the mount is ready") { manager.outputSoFar.contains("READY=1\n") }
            try await a.shell("echo text > f")
            try await world.eventually("the manager has a status and a sign of life") {
                manager.outputSoFar.contains("STATUS=up to date\n") && manager.outputSoFar.contains("WATCHDOG=1\n")
            }
            try await a.unmount()
            try await world.eventually("the mount's end is reported") {
                manager.outputSoFar.hasSuffix("STOPPING=1\n")
            }
            _ = daemon
        }
    }

    private static let manager = """
        import socket, sys
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        manager.bind(sys.argv[1])
        print("listening")
        while True: print(manager.recv(4096).decode())
        """

    @Test(.enabled(if: getuid() == 0, "mount(8) takes root"))
    func mountProgramMountsByItsHelper() async throws {
        try await World.run { world in
            let a = try world.device("a")
            // The helper lies where mount(8) looks for it, in a namespace of its own.
            let outcome = try await world.attempt(
                ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-ec",
                    """
                    cd '\(world.folder)'; mkdir -p upper work '\(a.mountPoint)'
                    mount -t tmpfs none work; mkdir work/u work/w
                    mount -t overlay overlay -o lowerdir=/usr/sbin,upperdir=work/u,workdir=work/w /usr/sbin
                    ln -s '\(World.program)' /usr/sbin/mount.ubiquity
                    echo "$PWD/a.state $PWD/a ubiquity device=desk,disk-floor=0,noauto,x-systemd.automount,_netdev 0 0" \
                        > fstab
                    mount -T fstab '\(a.mountPoint)'
                    mount -T fstab '\(a.mountPoint)' && echo again
                    echo text > a/f; findmnt -no FSTYPE,SOURCE a
                    umount a; findmnt a || echo gone
                    mount -t ubiquity -o policy=never a.state a || echo "refused $?"
                    """])
            #expect(outcome.status == 0, "\(outcome)")
            let lines = outcome.out.split(separator: "\n").map(String.init)
            #expect(lines == ["again", "fuse.ubiquity \(a.containerState)", "gone", "refused 32"], "\(outcome)")
        }
    }
}
