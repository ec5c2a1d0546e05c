import UbiquityCore
import UbiquityDatabase

/// The power fails in the middle of a write.
struct SimulatedCrash: Error {}

/// The shared folder as the cloud has it.
package final class SimulatedFolderCloud: @unchecked Sendable {
    struct Entry {
        var version: Int
        var bytes: [UInt8]?
    }

    var files: [String: Entry] = [:]
    private var version = 0

    package init() {}

    func set(_ name: String, _ bytes: [UInt8]?) {
        version += 1
        files[name] = Entry(version: version, bytes: bytes)
    }
}

/// The log's folder on one device: files arrive one by one, late, in any order. Everything runs on one thread.
package final class SimulatedFolder: LogStore, @unchecked Sendable {
    private let cloud: SimulatedFolderCloud
    private(set) var local: [String: [UInt8]] = [:]
    private var known: [String: Int] = [:]
    private var pending: Set<String> = []
    /// Writes until the next crash.
    var crashAfter: Int?
    /// How a crash leaves the write: 0 not at all, 1 a part of it, 2 completely.
    var crashKind = 0
    var isFull = false
    /// Names whose content is not here now.
    var placeholders: Set<String> = []

    package init(_ cloud: SimulatedFolderCloud) { self.cloud = cloud }

    // MARK: LogStore

    package func files() throws -> [LogFile] {
        local.sorted { $0.key < $1.key }.map { LogFile($0.key, size: $0.value.count) }
    }

    package func read(_ name: String, from offset: Int) throws -> [UInt8]? {
        guard let bytes = local[name], !placeholders.contains(name) else { return nil }
        return offset <= bytes.count ? Array(bytes[offset...]) : []
    }

    package func append(_ bytes: [UInt8], to name: String, at offset: Int) throws {
        var whole = Array((local[name] ?? []).prefix(offset))
        guard whole.count == offset else { throw UbiquityError(.invalid, "a segment is shorter than its offset", at: name) }
        try write { part in
            whole += bytes.prefix(part ?? bytes.count)
            set(name, whole)
        }
    }

    package func replace(_ name: String, with bytes: [UInt8]) throws {
        try write { part in if part == nil { set(name, bytes) } }
    }

    package func remove(_ name: String) throws {
        try write { part in if part == nil, local[name] != nil { set(name, nil) } }
    }

    /// - Parameter body: Gets how many bytes reach the disk; nil for all.
    private func write(_ body: (Int?) -> Void) throws {
        if isFull { throw UbiquityError(.noSpace, "the disk is full") }
        guard let left = crashAfter else { return body(nil) }
        guard left > 0 else {
            crashAfter = nil
            if crashKind == 1 { body(3) }
            if crashKind == 2 { body(nil) }
            throw SimulatedCrash()
        }
        crashAfter = left - 1
        body(nil)
    }

    private func set(_ name: String, _ bytes: [UInt8]?) {
        local[name] = bytes
        placeholders.remove(name)
        pending.insert(name)
    }

    // MARK: Transfer

    var uploads: [String] { pending.sorted() }
    var downloads: [String] {
        cloud.files.filter { known[$0.key, default: 0] < $0.value.version && !pending.contains($0.key) }.keys.sorted()
    }

    func upload(_ name: String) {
        pending.remove(name)
        cloud.set(name, local[name])
        known[name] = cloud.files[name]?.version
    }

    func download(_ name: String, asPlaceholder isPlaceholder: Bool) {
        guard let entry = cloud.files[name] else { return }
        known[name] = entry.version
        local[name] = entry.bytes
        if isPlaceholder, entry.bytes != nil { placeholders.insert(name) } else { placeholders.remove(name) }
    }
}
