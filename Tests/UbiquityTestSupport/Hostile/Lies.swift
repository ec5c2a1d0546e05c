internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// Makes answers that no sound cloud gives, from its true answers: devices more easily accept known ids in wrong places
/// than unknown ids.
final class Lies: Sendable {
    /// The number of records that are remembered.
    private static let remembered = 200
    /// No ignore file is among them: its rules would rightly keep items of a device from the cloud.
    private static let names = [
        "a", "b", "c.txt", ".versions", "..", ".", "", "x/y", "\u{0}", "Documents", "a.rtfd",
        String(repeating: "n", count: 256), "e\u{301}", "\u{1B}[2J",
    ]

    private let random: SeededRandom
    private let known = Lock<[RemoteItem]>([])

    init(_ random: SeededRandom) { self.random = random }

    func learn(_ items: [RemoteItem]) {
        known.withLock { known in
            known += items.filter { $0.id != .root }
            if known.count > Self.remembered { known.removeFirst(known.count - Self.remembered) }
        }
    }

    private func any() -> RemoteItem? {
        let known = known.withLock { $0 }
        return known.isEmpty ? nil : random.pick(known)
    }

    // MARK: Values

    private func identifier<Kind>() -> Identifier<Kind> { Identifier(high: 7, low: UInt64(random.below(12))) }

    func item() -> ItemID { random.chance(0.8) ? any()?.id ?? identifier() : random.chance(0.2) ? .root : identifier() }
    func device() -> DeviceID { any()?.content?.device ?? identifier() }
    func chunk() -> ChunkID { ChunkID(digest: random.bytes(4)) }
    private func versionID() -> VersionID { random.chance(0.6) ? any()?.content?.version ?? identifier() : identifier() }

    func number() -> Int64 {
        switch random.below(6) {
        case 0: Int64(random.below(4)) - 1
        case 1: Int64.max - Int64(random.below(3000))
        case 2: Int64.min + Int64(random.below(3))
        case 3: 1 << Int64(random.below(63))
        default: Int64(random.below(5000))
        }
    }

    func revision(near revision: Revision) -> Revision {
        switch random.below(5) {
        case 0: Revision(number())
        case 1: Revision(revision.number &- Int64(random.below(5)))
        default: Revision(revision.number &+ Int64(random.below(5)))
        }
    }

    func time() -> Timestamp { Timestamp(nanoseconds: random.chance(0.5) ? number() : Int64(random.next() >> 1)) }

    func usage() -> CloudUsage { CloudUsage(usedBytes: number(), quotaBytes: number()) }

    func manifest() -> Manifest {
        (0..<random.below(4)).map { _ in
            ChunkReference(id: chunk(), length: random.pick([1, 10, 300, Limits.maximumChunkLength, 0, -1]))
        }
    }

    private func content() -> RemoteContent {
        let manifest = Array(manifest().filter { $0.length > 0 })
        let isAvailable = random.chance(0.8), isOdd = random.chance(0.05)
        return RemoteContent(
            version: versionID(), size: isOdd ? number() : manifest.reduce(0) { $0 + Int64($1.length) },
            isAvailable: isAvailable, device: device(), deviceName: random.pick(["x", "", "\u{1B}]0;x\u{7}"]),
            manifest: isAvailable && random.chance(0.8) ? manifest : nil)
    }

    func version() -> RemoteVersion {
        RemoteVersion(
            content: any()?.content ?? content(), kind: random.pick(RemoteVersion.Kind.allCases), modifiedAt: time(),
            savedAt: time(), savedName: ItemName(stored: Array("a".utf8)),
            baseVersion: random.chance(0.5) ? versionID() : nil)
    }

    // MARK: Records

    /// Changes some of the records, drops others, inserts others.
    func records(_ records: [RemoteItem]) -> [RemoteItem] {
        var records = records.filter { _ in !random.chance(0.1) }
        for _ in 0..<random.below(4) {
            guard var item = any() else { break }
            item.revision = revision(near: item.revision)
            records.append(item)
        }
        if random.chance(0.4) { records.append(made()) }
        if random.chance(0.3) { records += circle() }
        for index in records.indices where random.chance(0.5) { spoil(&records[index]) }
        return records.shuffled(using: random)
    }

    /// A record of an item that the cloud does not have.
    private func made() -> RemoteItem {
        let kind = random.pick([ItemKind.file, .directory, .symlink, .hardLink])
        var item = RemoteItem(
            id: identifier(), kind: .directory, revision: Revision(number()), parent: item(),
            name: ItemName(stored: Array(random.pick(Self.names).utf8)), mode: 0o755, createdAt: time(),
            modifiedAt: time())
        become(kind, &item)
        return item
    }

    /// Folders that contain each other.
    private func circle() -> [RemoteItem] {
        let ids = (0...random.below(3)).map { _ in item() }
        return ids.indices.map { index in
            var folder = made()
            folder.id = ids[index]
            folder.parent = ids[(index + 1) % ids.count]
            become(.directory, &folder)
            return folder
        }
    }

    private func become(_ kind: ItemKind, _ item: inout RemoteItem) {
        item.kind = kind
        item.content = kind == .file ? content() : nil
        item.linkTarget = switch kind {
        case .symlink: Array(random.pick(["/etc/passwd", "..", "x"]).utf8)
        case .hardLink: random.chance(0.3) ? item.id.bytes : self.item().bytes
        default: []
        }
    }

    func spoil(_ record: inout RemoteItem) {
        switch random.below(16) {
        case 0: record.parent = record.id
        case 1: record.parent = item()
        case 2: record.name = any()?.name ?? record.name
        case 3: record.name = ItemName(stored: Array(random.pick(Self.names).utf8))
        case 4: become(random.pick([.file, .directory, .symlink, .hardLink]), &record)
        case 5: record.isDeleted.toggle()
        case 6: record.revision = revision(near: record.revision)
        case 7: if record.kind == .file { record.content = content() }
        case 8: record.content?.version = versionID()
        case 9: record.content?.isAvailable.toggle()
        case 10: if record.kind == .hardLink { record.linkTarget = random.chance(0.4) ? record.id.bytes : item().bytes }
        case 11: record.mode = UInt32(truncatingIfNeeded: random.chance(0.9) ? number() & 0o7777 : number())
        case 12: (record.modifiedAt, record.createdAt) = (time(), time())
        case 13:
            record.conflictCount = random.below(4)
            record.conflicts = (0..<random.below(record.conflictCount + 1)).map { _ in version() }
            record.hasHistory.toggle()
        case 14: record.id = item()
        default:
            record.xattrs = [Xattr(name: Array("user.x".utf8), value: random.bytes(random.below(50)))]
        }
        // The device would skip a record that is older than the known one.
        if random.chance(0.7) { record.revision = Revision(record.revision.number &+ Int64(1 + random.below(50))) }
    }

    // MARK: Answers

    /// The result of a commit that is not stored.
    func result(of change: ItemChange) -> ChangeResult {
        guard var item = any(), !random.chance(0.2) else { return ChangeResult(outcome: .unknownItem, item: nil) }
        if random.chance(0.7) {
            item.id = change.id
            if item.kind != change.kind { become(change.kind, &item) }
        }
        item.revision = revision(near: item.revision)
        return ChangeResult(outcome: random.chance(0.8) ? .applied : .merged(into: item.id), item: item)
    }

    func spoil(_ answer: inout CommitResponse) {
        switch random.below(6) {
        case 0: answer.revision = revision(near: answer.revision)
        case 1: if !answer.results.isEmpty { answer.results.removeLast() }
        case 2: answer.results += answer.results.prefix(1)
        case 3: answer.results = answer.results.shuffled(using: random)
        default:
            for index in answer.results.indices where random.chance(0.5) {
                switch random.below(4) {
                case 0: answer.results[index] = ChangeResult(outcome: .unknownItem, item: nil)
                case 1: answer.results[index].outcome = .merged(into: item())
                default:
                    guard var item = answer.results[index].item else { continue }
                    spoil(&item)
                    answer.results[index].item = item
                }
            }
        }
    }

    // MARK: Failures

    func failure() -> any Error {
        let code = random.pick(UbiquityError.Code.allCases)
        return Self.sent(UbiquityError(code, "x", at: "y", remedy: "z"))
    }

    func refusal(of request: CommitRequest) -> any Error {
        switch random.below(3) {
        case 0: Self.sent(MissingChunks(ids: random.chance(0.5) ? [chunk()] : request.manifests.joined().map(\.id)))
        case 1: Self.sent(OutdatedCommit(last: number()))
        default:
            Self.sent(
                PackageConflict(
                    package: item(), revision: Revision(number()), isYoursNewer: random.chance(0.5), modifiedAt: time(),
                    device: device(), deviceName: "x"))
        }
    }

    private static func sent(_ failure: any Error) -> any Error {
        do {
            let bytes = try WireCodec.encode(WireFailure(failure), as: .protobuf)
            return try WireCodec.decode(WireFailure.self, from: bytes, as: .protobuf).thrown
        } catch { return error }
    }
}

extension Array {
    fileprivate func shuffled(using random: SeededRandom) -> [Element] {
        var generator = random
        return shuffled(using: &generator)
    }
}
