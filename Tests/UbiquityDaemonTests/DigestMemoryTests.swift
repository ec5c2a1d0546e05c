import Testing
import UbiquityCore
import UbiquitySystem
@testable import UbiquityDaemon

/// A cloud that has ever sent digests must send them after a restart too.
@Suite struct DigestMemoryTests {
    private func inFolder(_ body: (String) throws -> Void) throws {
        let folder = "/tmp/ubiquity-digests-\(SystemRandom().next())"
        try FileSystem.makeDirectories(folder)
        defer { try? FileSystem.removeTree(folder) }
        try body(folder)
    }

    private func memory(_ device: String, _ signIn: SignIn) throws -> DigestMemory {
        let folder = try AccountFolder(device: device, signIn: signIn)
        try FileSystem.makeDirectories(folder.path)
        return DigestMemory(folder, url: signIn.url)
    }

    @Test func proofIsKnownAfterARestartUntilTheNextSignIn() throws {
        try inFolder { device in
            let signIn = SignIn(url: "http://a:1", account: "ann", token: "t", certificates: nil, cloud: "c")
            try signIn.save(deviceFolder: device)
            #expect(try !memory(device, signIn).isKnown())
            try memory(device, signIn).remember()
            #expect(try memory(device, signIn).isKnown())
            // The same account at another address may be another cloud.
            #expect(try !memory(device, SignIn(url: "http://b:1", account: "ann", token: "t", certificates: nil, cloud: "c")).isKnown())
            try signIn.save(deviceFolder: device)
            #expect(try !memory(device, signIn).isKnown())
        }
    }

    @Test func unreadableMemoryCountsAsProof() throws {
        try inFolder { device in
            let signIn = SignIn(url: "http://a:1", account: "ann", token: "t", certificates: nil)
            try memory(device, signIn).remember()
            let path = try AccountFolder(device: device, signIn: signIn).path + "/digests.json"
            try SmallFile.publish(Array("{".utf8), at: path)
            #expect(try memory(device, signIn).isKnown())
        }
    }
}
