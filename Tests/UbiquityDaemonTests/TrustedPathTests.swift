import Glibc
import Testing
import UbiquityCore
@testable import UbiquityDaemon

/// Configuration and state that other users may change are refused.
@Suite struct TrustedPathTests {
    private static let isRoot = geteuid() == 0

    private func code(_ path: String) -> UbiquityError.Code? {
        do throws(UbiquityError) { try TrustedPath.require(path, as: "the file") } catch { return error.code }
        return nil
    }

    @Test func ownFoldersAreTrusted() throws {
        try withTemporaryFolder { (folder: String) throws in
            #expect(code(folder) == nil)
            #expect(code(folder + "/not/there/yet") == nil)
        }
    }

    @Test(arguments: [0o720, 0o702]) func folderWritableByOthersIsRefused(_ mode: Int) throws {
        try withTemporaryFolder { (folder: String) throws in
            #expect(chmod(folder, mode_t(mode)) == 0)
            defer { chmod(folder, 0o700) }
            #expect(code(folder) == .notPermitted)
            #expect(code(folder + "/new") == .notPermitted)
        }
    }

    @Test func folderAboveWritableByOthersIsRefused() throws {
        try withTemporaryFolder { (folder: String) throws in
            #expect(mkdir(folder + "/open", 0o700) == 0 && mkdir(folder + "/open/own", 0o700) == 0)
            #expect(chmod(folder + "/open", 0o777) == 0)
            #expect(code(folder + "/open/own") == .notPermitted)
            // In a sticky folder nobody replaces the files of others. The folder itself is writable all the same.
            #expect(chmod(folder + "/open", 0o1777) == 0)
            #expect(code(folder + "/open/own") == nil)
            #expect(code(folder + "/open") == .notPermitted)
        }
    }

    @Test(.enabled(if: isRoot, "only root can give a folder away")) func anotherOwnerIsRefused() throws {
        try withTemporaryFolder { (folder: String) throws in
            #expect(mkdir(folder + "/theirs", 0o700) == 0 && mkdir(folder + "/theirs/own", 0o700) == 0)
            #expect(chown(folder + "/theirs", 65_534, 65_534) == 0)
            #expect(code(folder + "/theirs/own") == .notPermitted)
        }
    }

    @Test func linkIsJudgedByItsTarget() throws {
        try withTemporaryFolder { (folder: String) throws in
            #expect(mkdir(folder + "/open", 0o700) == 0 && chmod(folder + "/open", 0o777) == 0)
            #expect(symlink(folder + "/open", folder + "/link") == 0)
            #expect(code(folder + "/link") == .notPermitted)
        }
    }

    @Test func configurationWritableByOthersIsNotRead() throws {
        try withTemporaryFolder { (folder: String) throws in
            let path = folder + "/config"
            let file = open(path, O_CREAT | O_WRONLY, 0o600)
            #expect(write(file, "merge.txt = true\n", 17) == 17)
            close(file)
            #expect(try UserConfiguration.load(from: path).hasMergeCommands)
            #expect(chmod(path, 0o666) == 0)
            #expect(throws: UbiquityError.self) { try UserConfiguration.load(from: path) }
            #expect(unlink(path) == 0)
            #expect(try !UserConfiguration.load(from: path).hasMergeCommands)
        }
    }
}
