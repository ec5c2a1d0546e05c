package import UbiquityCore
package import UbiquitySystem

/// The versions that programs on this device have added to files.
///
/// Each version is a content file and a text file of the same name in `FOLDER/ITEM/`. The content is written first. So
/// a content without a text is an interrupted addition, and the next start removes it. `VersionService` lists the
/// versions, `VersionDownloads` gives their contents.
package final class AppVersions: Sendable {
    /// Versions of one file.
    package static let maximumPerItem = 100
    /// Bytes of all versions.
    package static let maximumBytes: Int64 = 5_000_000_000
    private static let textSuffix = ".version"
    /// Bytes of a version's text.
    private static let maximumTextLength = 4096

    private let folder: String?
    private let state = Lock<[ItemKey: [AppVersion]]>([:])

    /// - Parameter folder: nil keeps no versions.
    package init(folder: String?) { self.folder = folder }

    /// Reads the versions of the last run, and removes those that were not completed or whose item is gone.
    package func load(isAlive: (ItemKey) throws -> Bool) throws {
        guard let folder, try describing("find", at: folder, { () throws(Errno) in try FileSystem.exists(folder) })
        else { return }
        var found: [ItemKey: [AppVersion]] = [:]
        let folders = try describing("list", at: folder) { () throws(Errno) in try FileSystem.entries(of: folder) }
        for entry in folders {
            guard let number = Int64(entry.text) else { continue }
            let key = ItemKey(number), place = Path.join(folder, entry.text)
            guard try isAlive(key) else {
                try describing("remove", at: place) { () throws(Errno) in try FileSystem.removeTree(place) }
                continue
            }
            let versions = try Self.versions(of: key, in: place)
            if !versions.isEmpty { found[key] = versions }
        }
        state.withLock { $0 = found }
    }

    private static func versions(of key: ItemKey, in place: String) throws(UbiquityError) -> [AppVersion] {
        let names = try describing("list", at: place) { () throws(Errno) in
            Set(try FileSystem.entries(of: place).map(\.text))
        }
        var versions = [AppVersion]()
        for name in names where !name.hasSuffix(textSuffix) {
            guard let id = VersionID(hex: name), names.contains(name + textSuffix),
                let text = try SmallFile.read(Path.join(place, name + textSuffix), limit: maximumTextLength),
                let version = AppVersion(id: id, item: key, text: text)
            else {
                // The addition was interrupted.
                for rest in [name, name + textSuffix] { try? FileSystem.unlink(Path.join(place, rest)) }
                continue
            }
            versions.append(version)
        }
        return versions.sorted { $0.savedAt < $1.savedAt }
    }

    // MARK: Reading

    package func versions(of key: ItemKey) -> [AppVersion] { state.withLock { $0[key] ?? [] } }

    package var isEmpty: Bool { state.withLock { $0.isEmpty } }

    package func hasVersions(_ key: ItemKey) -> Bool { state.withLock { $0[key] != nil } }

    /// The files that have versions.
    package var items: [ItemKey] { state.withLock { $0.keys.sorted() } }

    package func version(_ id: VersionID) -> AppVersion? {
        state.withLock { state in
            for versions in state.values {
                if let version = versions.first(where: { $0.id == id }) { return version }
            }
            return nil
        }
    }

    /// Opens a version's content; nil if there is no such version.
    package func open(_ id: VersionID) throws(UbiquityError) -> FileDescriptor? {
        guard let folder, let version = version(id) else { return nil }
        let path = Self.place(of: version, in: folder)
        return try describing("open a version", at: path) { () throws(Errno) in
            // Readers share their code with downloads, which write.
            try FileDescriptor.open(path, .readWrite)
        }
    }

    private static func place(of version: AppVersion, in folder: String) -> String {
        Path.join(Path.join(folder, version.item.description), version.id.description)
    }

    // MARK: Changing

    /// Adds a version. Older ones are removed if the limits require it, discardable ones first.
    ///
    /// - Parameter content: a file on the same disk, which is moved.
    /// - Throws: `.tooLarge` if the content alone exceeds the limit, `.notSupported` without a folder.
    package func add(_ version: AppVersion, content: String) throws(UbiquityError) {
        guard let folder else { throw UbiquityError(.notSupported, "this device keeps no versions of programs") }
        guard version.size <= Self.maximumBytes else {
            throw UbiquityError(
                .tooLarge, "a version has at most \(ByteSize.text(Self.maximumBytes))", at: version.name.description)
        }
        let place = Self.place(of: version, in: folder), parent = Path.parent(of: place)
        try describing("add a version", at: place) { () throws(Errno) in
            try FileSystem.makeDirectories(parent)
            try FileSystem.rename(content, to: place)
        }
        do {
            FaultPoints.reach("app-version.moved")
            try SmallFile.publish(version.text, at: place + Self.textSuffix)
        } catch {
            try? FileSystem.unlink(place)
            throw error
        }
        let removed = state.withLock { state in
            state[version.item, default: []].append(version)
            return Self.surplus(&state, of: version)
        }
        for old in removed { Self.erase(old, in: folder) }
    }

    /// Takes the versions beyond the limits out of the table. The new version stays.
    private static func surplus(_ state: inout [ItemKey: [AppVersion]], of new: AppVersion) -> [AppVersion] {
        var removed = [AppVersion]()
        func remove(from candidates: [AppVersion]) -> Bool {
            let old = candidates.filter { $0.id != new.id }
            let discardable = old.filter(\.isDiscardable)
            let oldest = (discardable.isEmpty ? old : discardable).min { $0.savedAt < $1.savedAt }
            guard let oldest else { return false }
            state[oldest.item]?.removeAll { $0.id == oldest.id }
            if state[oldest.item]?.isEmpty == true { state[oldest.item] = nil }
            removed.append(oldest)
            return true
        }
        while let own = state[new.item], own.count > maximumPerItem, remove(from: own) {}
        while state.values.joined().reduce(Int64(0), { $0 + $1.size }) > maximumBytes,
            remove(from: Array(state.values.joined())) {}
        return removed
    }

    /// Removes a version. Returns false if there is none.
    @discardableResult
    package func remove(_ id: VersionID) -> Bool {
        guard let folder, let version = version(id) else { return false }
        state.withLock { state in
            state[version.item]?.removeAll { $0.id == id }
            if state[version.item]?.isEmpty == true { state[version.item] = nil }
        }
        Self.erase(version, in: folder)
        return true
    }

    /// The text first: a content without a text is removed by the next start.
    private static func erase(_ version: AppVersion, in folder: String) {
        let place = place(of: version, in: folder)
        for path in [place + textSuffix, place] { try? FileSystem.unlink(path) }
        try? FileSystem.removeDirectory(Path.parent(of: place))
    }

    /// Changes whether a version may be removed to make space.
    package func setDiscardable(_ id: VersionID, _ isDiscardable: Bool) throws(UbiquityError) -> AppVersion {
        guard let folder, var version = version(id) else {
            throw UbiquityError(.notFound, "no program has added such a version", at: id.description)
        }
        version.isDiscardable = isDiscardable
        try SmallFile.publish(version.text, at: Self.place(of: version, in: folder) + Self.textSuffix)
        state.withLock { [version] state in
            guard let place = state[version.item]?.firstIndex(where: { $0.id == id }) else { return }
            state[version.item]?[place] = version
        }
        return version
    }
}
