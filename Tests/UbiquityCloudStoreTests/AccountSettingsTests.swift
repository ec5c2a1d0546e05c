import GRDB
import Testing
@testable import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// Quotas of single accounts, and the deletion of accounts. QU-01, SV-02.
@Suite struct AccountSettingsTests {
    private let bench: CloudBench
    private let small = ChunkSamples.chunk(1, length: 9000)
    private let large = ChunkSamples.chunk(2, length: 40_000)

    init() throws { bench = try CloudBench() }

    private func quota(_ account: String) async throws -> Int64 {
        try await bench.cloud.overview(of: account).usage.quotaBytes
    }

    @Test func ownQuotaIsKeptWhenThatOfAllChanges() async throws {
        _ = try await bench.cloud.createAccount("alice")
        _ = try await bench.cloud.createAccount("bob", quota: 7_000_000)
        #expect(try await quota("alice") == CloudLimits.defaultQuotaBytes)
        #expect(try await quota("bob") == 7_000_000)
        try await bench.cloud.setQuota(50_000, of: "alice")
        try await bench.reopen(quotaBytes: 1 << 30)
        #expect(try await quota("alice") == 50_000)
        #expect(try await quota("bob") == 7_000_000)
        try await bench.cloud.setQuota(nil, of: "alice")
        #expect(try await quota("alice") == 1 << 30)
        // The running cloud takes new rules.
        try await bench.cloud.apply(keeping: .standard, quotaBytes: 1 << 31)
        #expect(try await quota("alice") == 1 << 31)
        #expect(try await quota("bob") == 7_000_000)
    }

    @Test func unfitQuotasAreRefused() async throws {
        _ = try await bench.cloud.createAccount("alice")
        for bytes in [0, -1, CloudLimits.largestQuotaBytes + 1] {
            #expect(await failure { try await bench.cloud.setQuota(bytes, of: "alice") } == .invalid)
            #expect(await failure { _ = try await bench.cloud.createAccount("eve", quota: bytes) } == .invalid)
        }
        #expect(await failure { try await bench.cloud.setQuota(1, of: "nobody") } == .notFound)
    }

    @Test func accountOverItsNewQuotaKeepsItsDocuments() async throws {
        _ = try await bench.cloud.createAccount("alice")
        let service = try await bench.container(account: "alice")
        _ = try await service.commit(bench.request([bench.file(1, "a", [large])], [large]))
        try await bench.cloud.setQuota(10_000, of: "alice")
        #expect(try await bench.fetch([large.id], from: service) == [large])
        let more = try bench.file(2, "b", [small])
        #expect(await failure { _ = try await service.commit(bench.request([more], [small])) } == .quotaExceeded)
        _ = try await service.commit(bench.request([Make.delete(1, base: 1)]))
        _ = try await service.commit(bench.request([more], [small]))
    }

    // MARK: Deletion

    private func fillAlice() async throws {
        _ = try await bench.cloud.createAccount("alice")
        let service = try await bench.container(account: "alice")
        let chunks = [small, large]
        _ = try await service.commit(bench.request([bench.file(1, "the secret plan.txt", chunks)], chunks))
    }

    /// The names of the files in the cloud's folder that contain the bytes.
    private func files(with bytes: [UInt8]) throws -> [String] {
        try FolderSearch.files(in: bench.folder.path, with: bytes)
    }

    @Test func deletedAccountLeavesNoBytes() async throws {
        try await fillAlice()
        let secrets = [Array("the secret plan".utf8), Array(small.bytes.prefix(64)), Array(large.bytes.prefix(64))]
        for secret in secrets { #expect(try !files(with: secret).isEmpty) }
        try await bench.cloud.deleteAccount("alice")
        for secret in secrets { #expect(try files(with: secret) == []) }
        try await bench.reopen()
        for secret in secrets { #expect(try files(with: secret) == []) }
        #expect(try await bench.cloud.accounts() == [])
    }

    /// The rows go in one transaction. A process that is killed after it leaves the chunks, which the next start
    /// removes.
    @Test func deletionInterruptedBeforeTheChunksIsFinishedByTheUpkeep() async throws {
        try await fillAlice()
        let chunks = Path.join(bench.folder.path, "chunks/1"), kept = Path.join(bench.folder.path, "kept")
        try await bench.reopen { try FileSystem.rename(chunks, to: kept) }
        try await bench.cloud.deleteAccount("alice")
        try await bench.reopen { try FileSystem.rename(kept, to: chunks) }
        #expect(try !files(with: Array(large.bytes.prefix(64))).isEmpty)
        try await bench.cloud.maintain()
        #expect(try !FileSystem.exists(chunks))
        // A new account of the name has nothing of it.
        _ = try await bench.cloud.createAccount("alice")
        let service = try await bench.container(account: "alice")
        #expect(try await service.missingChunks(of: [small.id, large.id]) == [small.id, large.id])
    }
}

/// Searches all files of a folder.
enum FolderSearch {
    static func files(in folder: String, with bytes: [UInt8]) throws -> [String] {
        var found = [String]()
        for entry in try FileSystem.entries(of: folder) {
            let path = Path.join(folder, entry.text)
            let status = try FileSystem.status(path)
            if status.isDirectory {
                found += try files(in: path, with: bytes)
            } else if status.size > 0 {
                let file = try FileDescriptor.open(path, .readOnly)
                if contains(try file.read(count: Int(status.size), at: 0), bytes) { found.append(entry.text) }
            }
        }
        return found
    }

    private static func contains(_ all: [UInt8], _ part: [UInt8]) -> Bool {
        guard all.count >= part.count, let first = part.first else { return false }
        return (0...(all.count - part.count)).contains { start in
            all[start] == first && all[start..<(start + part.count)].elementsEqual(part)
        }
    }
}
