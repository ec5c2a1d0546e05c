internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem

/// Finds contents that no item references, and files in the store's folders that are no contents.
struct UnusedContentCheck: Check {
    let context: CheckContext

    /// An unreferenced content younger than this, in seconds, may be under construction. It is then checked once more.
    private static let unusedAge: Double = 10

    func run() async throws -> [Finding] {
        var unused = try await pool.run { try self.contents(leavesLeftovers: options.leavesLeftovers) }
        if !options.isAlone, !unused.isEmpty {
            let limit = timekeeper.now().advanced(bySeconds: -Self.unusedAge)
            if unused.contains(where: { $0.status.changedAt > limit }) {
                try await timekeeper.sleep(for: .seconds(Self.unusedAge))
            }
            let still = Set(try await pool.run { try self.contents(leavesLeftovers: false) }.map(\.content))
            unused.removeAll { !still.contains($0.content) }
        }
        return try await pool.run { [unused] in
            try unused.map { content, status in
                let outcome: Finding.Outcome =
                    options.repairs ? .repaired("set aside as \(try self.store.setAside(content))") : .found
                return Finding(.contentUnused, "content \(content)", "\(status.size) bytes without an item", outcome)
            } + self.examineStrayFiles()
        }
    }

    /// Contents that no item references. Omits empty ones: files are created in advance, and the next start removes
    /// unused ones.
    func contents(leavesLeftovers: Bool) throws -> [(content: ContentID, status: FileStatus)] {
        let files = try store.all()
        let used = try index.read { try $0.contentsInUse() }
        return try files.compactMap { content in
            guard !used.contains(content), !store.isRetired(content), !device.isInUse(content),
                let status = try store.status(of: content), status.size > 0,
                try index.read({ try $0.row(content: content) }) == nil,
                try !leavesLeftovers || index.read({ try $0.hadItem(content) })
            else { return nil }
            return (content, status)
        }
    }

    /// Whether the last process was killed. Contents that it was about to remove, or had just created, are removed by
    /// the next mount (`recover`). False if the index is new or has lost its records of them.
    func hasLeftovers() throws -> Bool {
        try !index.hasLostJournal && index.read { try $0.lastBoot() != nil && !$0.hasEnded() }
    }

    /// Files in the store's folders that are no contents, or are in the wrong folder.
    private func examineStrayFiles() throws -> [Finding] {
        // During a mount, the mount command has reported these.
        let before = (options.isAlone && !options.isFurtherLook ? store.movedAside : []).map { name, path in
            Finding(.contentUnused, "content/\(name)", "it is not a folder", .repaired("set aside as \(path)"))
        }
        return try before + store.strayFiles().map { name in
            let outcome: Finding.Outcome =
                options.repairs ? .repaired("set aside as \(try store.setAside(stray: name))") : .found
            return Finding(.contentUnused, "content/\(name)", "it is not a content", outcome)
        }
    }
}
