import CFUSE
import Glibc
import Testing
import UbiquityCore
import UbiquitySystem
@testable import UbiquityFUSE

/// Root must mount on the folder that was checked.
@Suite struct MountPlaceTests {
    private static let isRoot = geteuid() == 0
    private static let canMount = isRoot && access("/dev/fuse", R_OK | W_OK) == 0

    private func withFolder(_ body: (String) throws -> Void) throws {
        var template = Array("/tmp/ubiquity-place-XXXXXX".utf8CString)
        let folder = String(cString: try #require(mkdtemp(&template)))
        defer { try? FileSystem.removeTree(folder) }
        try body(folder)
    }

    private func code(_ path: String) -> UbiquityError.Code? {
        do throws(UbiquityError) { _ = try MountPoint.check(path) } catch { return error.code }
        return nil
    }

    // MARK: Owners of folders

    @Test func emptyOwnFolderIsAccepted() throws {
        try withFolder { (folder: String) throws in
            #expect(mkdir(folder + "/mnt", 0o700) == 0 && mkdir(folder + "/full", 0o700) == 0)
            #expect(mkdir(folder + "/full/inner", 0o700) == 0 && symlink(folder + "/mnt", folder + "/link") == 0)
            #expect(try MountPoint.check(folder + "/mnt") == folder + "/mnt")
            #expect(try MountPoint.check(folder + "/link") == folder + "/mnt", "a symlink of the owner's is followed")
            #expect(code(folder + "/full") == .directoryNotEmpty)
            #expect(code(folder + "/absent") == .notFound)
        }
    }

    @Test(.enabled(if: isRoot, "only root's mounts are seen by all"), arguments: [0o777, 0o775, 0o707])
    func rootRefusesAMountPointBelowAWritableFolder(mode: Int) throws {
        try withFolder { (folder: String) throws in
            #expect(mkdir(folder + "/open", 0o700) == 0 && mkdir(folder + "/open/mnt", 0o700) == 0)
            #expect(chmod(folder + "/open", mode_t(mode)) == 0)
            #expect(code(folder + "/open/mnt") == .notPermitted)
            #expect(chmod(folder + "/open", mode_t(mode) | 0o1000) == 0)
            #expect(code(folder + "/open/mnt") == nil, "in a sticky folder nobody renames what root owns")
        }
    }

    @Test(.enabled(if: isRoot, "only root can give a folder away"))
    func rootRefusesAnotherUsersMountPoint() throws {
        try withFolder { (folder: String) throws in
            #expect(mkdir(folder + "/home", 0o700) == 0 && mkdir(folder + "/home/mnt", 0o700) == 0)
            #expect(chown(folder + "/home/mnt", 65_534, 65_534) == 0)
            #expect(code(folder + "/home/mnt") == .notPermitted)
            #expect(chown(folder + "/home/mnt", 0, 0) == 0 && chown(folder + "/home", 65_534, 65_534) == 0)
            #expect(code(folder + "/home/mnt") == .notPermitted)
        }
    }

    // MARK: Exchange during the mount

    /// Exchanges two items repeatedly while `body` runs.
    private func exchanging(_ first: String, _ second: String, _ body: () -> Void) {
        struct State { var isEnding = false, hasEnded = false }
        let state = Monitor(State())
        DedicatedThread.start(name: "exchanger") {
            while !state.withLock({ $0.isEnding }) { try? FileSystem.rename(first, to: second, .exchange) }
            state.withLock { $0.hasEnded = true }
            state.broadcast()
        }
        body()
        state.withLock { $0.isEnding = true }
        _ = state.wait(atMost: .seconds(30)) { $0.hasEnded ? true : nil }
    }

    /// Mounts like `Mount`, without serving requests.
    private func mount(at path: String, source: String) throws(UbiquityError) -> OpaquePointer {
        let configuration = FUSESession.Configuration(mountPoint: try MountPoint.check(path), source: source)
        return try SessionMount.make(configuration) { () throws(UbiquityError) in
            let texts = ["ubiquity", "-o", "fsname=\(source)", "-o", "subtype=ubiquity"]
            var arguments: [UnsafeMutablePointer<CChar>?] = texts.map { (text: String) in strdup(text) } + [nil]
            defer { for argument in arguments { free(argument) } }
            var operations = fuse_lowlevel_ops()
            let session = arguments.withUnsafeMutableBufferPointer { buffer in
                var list = fuse_args(argc: Int32(buffer.count - 1), argv: buffer.baseAddress, allocated: 0)
                defer { fuse_opt_free_args(&list) }
                return fuse_session_new(&list, &operations, MemoryLayout<fuse_lowlevel_ops>.size, nil)
            }
            guard let session else { throw UbiquityError(.invalid, "no session") }
            return session
        }
    }

    /// The victim has a file; a mount over it would hide that. Another name of it may be a symlink.
    @Test(.enabled(if: canMount, "mounting for all users takes root"), arguments: [false, true])
    func exchangedFolderIsNeverCovered(isSymlink: Bool) throws {
        try withFolder { (folder: String) throws in
            let place = folder + "/mnt", victim = folder + "/victim", other = isSymlink ? folder + "/link" : victim
            #expect(mkdir(place, 0o700) == 0 && mkdir(victim, 0o700) == 0 && mkdir(victim + "/file", 0o700) == 0)
            if isSymlink { #expect(symlink(victim, other) == 0) }
            var mounted = 0, refused = 0
            for _ in 0..<60 {
                var session: OpaquePointer?
                exchanging(place, other) {
                    do throws(UbiquityError) { session = try mount(at: place, source: folder) } catch { refused += 1 }
                }
                guard let session else { continue }
                mounted += 1
                let covered = try MountedFileSystem.all().filter { $0.source == folder }
                for mount in covered { try Unmounting.unmount(Array(mount.mountPoint.utf8), lazy: true) }
                fuse_session_destroy(session)
                // Nothing is mounted any more: the names show the folder beneath the mount.
                let hidden = try covered.first.map { try FileSystem.entries(of: $0.mountPoint).count }
                #expect(covered.count == 1 && hidden == 0, "it was mounted over a folder with files")
            }
            #expect(mounted + refused == 60)
        }
    }
}
