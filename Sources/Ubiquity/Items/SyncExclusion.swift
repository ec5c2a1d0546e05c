import UbiquityCore
import UbiquitySystem

/// Takes an item out of sync, or puts it back, by a rule in its folder's ignore file. Blocks.
struct SyncExclusion {
    private static let ruleFile = ".ubiquityignore"
    /// Bytes of an ignore file.
    private static let maximumLength = 1 << 20
    /// Ends the name of a folder whose contents are never synced.
    private static let localSuffix = ".nosync"

    let path: String

    func set(_ isExcluded: Bool) throws {
        let now = try ResourceValueReader(path: path).values(of: [.isUbiquitousItem, .isExcludedFromSync])
        guard now.ubiquitousItemIsExcludedFromSync != nil else {
            throw UbiquityError(.invalid, "the item is in no mounted container", at: path)
        }
        guard now.ubiquitousItemIsExcludedFromSync != isExcluded else { return }
        try changeRule(isExcluded)
        let isSet = { () throws -> Bool in
            try ResourceValueReader(path: path).values(of: [.isExcludedFromSync]).ubiquitousItemIsExcludedFromSync
                == isExcluded
        }
        guard isExcluded, try !isSet() else { return }
        // A rule leaves synced items in sync. An item that comes out of a local folder stays local if a rule names it.
        try passThroughLocalFolder()
        guard try isSet() else {
            throw UbiquityError(
                .busy, "another rule keeps the item in sync", at: path,
                remedy: "see the lines that begin with '!' in \(Self.ruleFile)")
        }
    }

    // MARK: Rules

    private func changeRule(_ isExcluded: Bool) throws(UbiquityError) {
        let name = Path.name(of: path), file = Path.join(Path.parent(of: path), Self.ruleFile)
        guard !name.contains("\n") else {
            throw UbiquityError(.invalidName, "a rule cannot name a file with a line break in its name", at: path)
        }
        let rule = Self.rule(of: name)
        let old = String(decoding: try SmallFile.read(file, limit: Self.maximumLength) ?? [], as: UTF8.self)
        var lines = old.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        if lines.last?.isEmpty == true { lines.removeLast() }
        lines.removeAll { $0 == rule }
        if isExcluded { lines.append(rule) }
        guard !lines.isEmpty else {
            return try describing("remove the ignore file", at: file) { () throws(Errno) in
                do throws(Errno) { try FileSystem.unlink(file) } catch .ENOENT {}
            }
        }
        let text = lines.map { $0 + "\n" }.joined()
        guard text != old else { return }
        let staged = try SafeFile.stage(near: file) { output throws(Errno) in try output.write(Array(text.utf8)) }
        try SafeFile.publish(staged, at: file)
    }

    /// The rule that names exactly this item in its folder.
    static func rule(of name: String) -> String {
        var rule = "/"
        for character in name {
            if "*?[]\\".contains(character) { rule.append("\\") }
            rule.append(character)
        }
        // A space at the end counts only behind a backslash.
        if rule.hasSuffix(" ") { rule = rule.dropLast() + "\\ " }
        return rule
    }

    /// Moves the item into a folder that is never synced, and back.
    private func passThroughLocalFolder() throws(UbiquityError) {
        var random = SystemRandomNumberGenerator()
        let mark = String(random.next() as UInt64, radix: 36)
        let folder = Path.join(Path.parent(of: path), ".excluding-\(mark)\(Self.localSuffix)")
        let inside = Path.join(folder, Path.name(of: path))
        try describing("take the item out of sync", at: path) { () throws(Errno) in
            try FileSystem.makeDirectory(folder, mode: 0o700)
        }
        do throws(UbiquityError) {
            try ItemMover.move(path, to: inside)
            do throws(UbiquityError) { try ItemMover.move(inside, to: path) } catch {
                throw UbiquityError(
                    error.code, "the item is out of sync, and cannot be moved back: \(error.message)", at: inside,
                    remedy: "move it back by hand")
            }
        } catch {
            try? FileSystem.removeDirectory(folder)
            throw error
        }
        // An empty folder that stays is local.
        try? FileSystem.removeDirectory(folder)
    }
}
