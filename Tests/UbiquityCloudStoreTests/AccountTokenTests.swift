import GRDB
import Testing
@testable import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// Tokens and devices of an account. CI-03, CI-13: a token has a name and rights, and can be revoked alone.
@Suite struct AccountTokenTests {
    private let bench: CloudBench
    private var tokens: AccountTokens { bench.cloud.tokens }

    init() throws { bench = try CloudBench() }

    private func holder(_ secret: String) async throws -> TokenHolder { try await tokens.authenticate(secret) }

    @Test func eachTokenHasItsRights() async throws {
        let first = try await bench.cloud.createAccount("alice")
        let app = try await tokens.create(
            of: "alice", TokenRequest(name: "notes app", containers: ["notes", "drafts"], readOnly: true))
        #expect(try await holder(first).rights == .all)
        let rights = try await holder(app.token).rights
        #expect(rights.isReadOnly && rights.containers?.map(\.name).sorted() == ["drafts", "notes"])
        #expect(try await tokens.list(of: "alice").map(\.name) == ["notes app", "token 1"])
        #expect(try await tokens.create(of: "alice", TokenRequest()).name == "token 2")
        // They are the same after a restart.
        try await bench.reopen()
        #expect(try await holder(app.token).rights == rights)
    }

    @Test func secretIsNotInTheDataFolder() async throws {
        let secret = try await bench.cloud.createAccount("alice")
        try await bench.reopen {
            let file = try FileDescriptor.open(Path.join(bench.folder.path, "metadata.db"), .readOnly)
            let bytes = try file.read(count: Int(try file.status().size), at: 0)
            #expect(!String(decoding: bytes, as: UTF8.self).contains(secret))
        }
    }

    @Test func revokedTokenSaysSoAndFreesItsName() async throws {
        let first = try await bench.cloud.createAccount("alice")
        let phone = try await tokens.create(of: "alice", TokenRequest(name: "phone"))
        let announced = Lock<[Int64]>([])
        bench.cloud.revocations.observe { token in announced.withLock { $0.append(token) } }
        let number = try await holder(phone.token).token
        try await tokens.revoke("phone", of: "alice")
        #expect(announced.withLock { $0 } == [number])
        for _ in 0..<2 {
            let error = await #expect(throws: RevokedToken.self) { _ = try await holder(phone.token) }
            #expect(error?.error.message == "the token \"phone\" of account alice was revoked")
            try await bench.reopen()
        }
        #expect(try await holder(first).account == "alice")
        let again = try await tokens.create(of: "alice", TokenRequest(name: "phone"))
        #expect(try await holder(again.token).account == "alice")
        #expect(await failure { try await tokens.revoke("tablet", of: "alice") } == .notFound)
        #expect(await failure { try await tokens.revoke("phone", of: "bob") } == .notFound)
    }

    @Test func unfitNamesAndContainersAreRefused() async throws {
        _ = try await bench.cloud.createAccount("alice")
        _ = try await tokens.create(of: "alice", TokenRequest(name: "phone"))
        let long = String(repeating: "x", count: CloudLimits.maximumTokenNameLength + 1)
        let many = (0...CloudLimits.maximumContainersPerToken).map { "c\($0)" }
        let cases: [(TokenRequest, UbiquityError.Code)] = [
            (TokenRequest(name: "phone"), .alreadyExists), (TokenRequest(name: ""), .invalidName),
            (TokenRequest(name: " "), .invalidName), (TokenRequest(name: "a\nb"), .invalidName),
            (TokenRequest(name: long), .nameTooLong), (TokenRequest(containers: []), .invalid),
            (TokenRequest(containers: ["a/b"]), .invalidName), (TokenRequest(containers: many), .invalid),
        ]
        for (request, code) in cases {
            #expect(await failure { _ = try await tokens.create(of: "alice", request) } == code, "\(request)")
        }
        #expect(await failure { _ = try await tokens.create(of: "bob", TokenRequest()) } == .notFound)
    }

    @Test func tokensOfAnAccountAreLimited() async throws {
        _ = try await bench.cloud.createAccount("alice")
        try await bench.cloud.pool.run { [cloud = bench.cloud] in
            try cloud.write { db in
                for number in 1..<CloudLimits.maximumTokensPerAccount {
                    _ = try cloud.tokens.insert("secret \(number)", named: "t\(number)", .all, of: 1, db)
                }
            }
        }
        #expect(await failure { _ = try await tokens.create(of: "alice", TokenRequest()) } == .tooLarge)
        try await tokens.revoke("t1", of: "alice")
        _ = try await tokens.create(of: "alice", TokenRequest())
    }

    // MARK: Read-only tokens

    @Test func readOnlyHolderCreatesNoContainer() async throws {
        _ = try await bench.cloud.createAccount("alice")
        let name = try #require(ContainerID("notes"))
        let reading = try await bench.cloud.service(account: "alice", container: name, isReadOnly: true)
        #expect(await failure { _ = try await reading.open() } == .notFound)
        _ = try await bench.container(account: "alice")
        #expect(try await reading.open().account == "alice")
    }

    // MARK: Devices

    private func contact(_ number: UInt64, _ name: String) -> DeviceContact {
        DeviceContact(device: DeviceID(high: 1, low: number), name: name)
    }

    @Test func devicesAreListedWithTheirLastContact() async throws {
        let holder = try await holder(bench.cloud.createAccount("alice")), devices = bench.cloud.devices
        await devices.record(contact(1, "laptop"), of: holder)
        let first = try #require(try await devices.list(of: "alice").first)
        #expect(first.name == "laptop" && first.tokens == ["token 1"] && first.firstContact == first.lastContact)
        // Not every request is written down.
        bench.clock.advance(seconds: CloudLimits.contactInterval / 2)
        await devices.record(contact(1, "laptop"), of: holder)
        #expect(try await devices.list(of: "alice").first?.lastContact == first.lastContact)
        bench.clock.advance(seconds: CloudLimits.contactInterval)
        await devices.record(contact(1, "my laptop"), of: holder)
        let later = try #require(try await devices.list(of: "alice").first)
        #expect(later.lastContact > first.lastContact && later.firstContact == first.firstContact)
        #expect(later.name == "my laptop")
        let token = try #require(try await tokens.list(of: "alice").first)
        #expect(token.lastUsed == later.lastContact && token.devices == ["my laptop"])
    }

    @Test func removedDeviceLosesItsTokens() async throws {
        let shared = try await bench.cloud.createAccount("alice"), devices = bench.cloud.devices
        let own = try await tokens.create(of: "alice", TokenRequest(name: "tablet's"))
        let spare = try await tokens.create(of: "alice", TokenRequest(name: "spare"))
        await devices.record(contact(1, "tablet"), of: try await holder(own.token))
        await devices.record(contact(1, "tablet"), of: try await holder(shared))
        await devices.record(contact(2, "desk"), of: try await holder(shared))
        let removed = try await devices.remove("tablet", of: "alice")
        #expect(removed.revokedTokens == ["tablet's", "token 1"] && removed.otherDevices == ["desk"])
        for secret in [own.token, shared] {
            await #expect(throws: RevokedToken.self) { _ = try await holder(secret) }
        }
        _ = try await holder(spare.token)
        #expect(try await devices.list(of: "alice").map(\.name) == ["desk"])
        #expect(await failure { _ = try await devices.remove("tablet", of: "alice") } == .notFound)
    }

    @Test func devicesOfOneNameAreRemovedByTheirIDs() async throws {
        let holder = try await holder(bench.cloud.createAccount("alice")), devices = bench.cloud.devices
        for number in UInt64(1)...2 { await devices.record(contact(number, "pi"), of: holder) }
        #expect(await failure { _ = try await devices.remove("pi", of: "alice") } == .invalid)
        _ = try await devices.remove(DeviceID(high: 1, low: 1).description, of: "alice")
        #expect(try await devices.list(of: "alice").map(\.id) == [DeviceID(high: 1, low: 2).description])
    }

    @Test func devicesOfAnAccountAreLimited() async throws {
        let holder = try await holder(bench.cloud.createAccount("alice")), devices = bench.cloud.devices
        try await bench.cloud.pool.run { [cloud = bench.cloud] in
            try cloud.write { db in
                for number in 0..<CloudLimits.maximumDevicesPerAccount {
                    try db.execute(
                        sql: "INSERT INTO devices VALUES (1, ?, ?, ?, ?)",
                        arguments: [Bytes(DeviceID(high: 2, low: UInt64(number)).bytes), "d\(number)", number, number])
                }
            }
        }
        await devices.record(contact(1, "new"), of: holder)
        let names = try await devices.list(of: "alice").map(\.name)
        #expect(names.count == CloudLimits.maximumDevicesPerAccount && names.contains("new") && !names.contains("d0"))
    }

    // MARK: Older formats

    /// AW-05: the format of a cloud's data has a number. A cloud of format 9 had one nameless token an account.
    @Test func databaseOfFormat9KeepsItsTokens() async throws {
        try await bench.reopen { try restoreFormat9() }
        for (account, secret) in RecordedFormats.format9Tokens {
            #expect(try await holder(secret).account == account)
            #expect(try await holder(secret).rights == .all)
            let entry = try #require(try await tokens.list(of: account).first)
            #expect(entry.name == "token 1" && entry.lastUsed == nil && entry.created > 1_700_000_000)
        }
        #expect(try await bench.container(account: "alice").open().revision == .zero)
        #expect(try await bench.cloud.overview(of: "alice").containers.map(\.name.name) == ["notes"])
        // Once more, now without a migration.
        try await bench.reopen()
        _ = try await tokens.create(of: "alice", TokenRequest(containers: ["notes"]))
        #expect(try await tokens.list(of: "alice").count == 2)
    }

    /// A process that is killed during the migration leaves the old format, because all of it is one transaction.
    @Test func interruptedMigrationStartsAgain() async throws {
        try await bench.reopen {
            try restoreFormat9()
            let database = try DatabaseQueue(path: Path.join(bench.folder.path, "metadata.db"))
            try database.write { db in
                // The last statement of the migration fails, as if the process had ended before it.
                try db.execute(sql: "CREATE TABLE other (token INTEGER); CREATE INDEX deviceTokensToken ON other (token)")
            }
            #expect(throws: (any Error).self) { try CloudBench.open(bench.folder.path, bench.clock, bench.pool) }
            try database.write { db in
                #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM tokens") == 2)
                #expect(try Int.fetchOne(db, sql: "PRAGMA user_version") == 9)
                try db.execute(sql: "DROP TABLE other")
            }
            try database.close()
        }
        let secret = try #require(RecordedFormats.format9Tokens["bob"])
        #expect(try await holder(secret).account == "bob")
    }

    private func restoreFormat9() throws {
        let path = Path.join(bench.folder.path, "metadata.db")
        try FileSystem.unlink(path)
        for end in ["-wal", "-shm"] where try FileSystem.exists(path + end) { try FileSystem.unlink(path + end) }
        let database = try DatabaseQueue(path: path)
        try database.writeWithoutTransaction { try $0.execute(sql: RecordedFormats.format9) }
        try database.close()
    }
}
