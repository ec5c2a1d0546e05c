// Recognizes temporary names. Programs that save by renaming write a file of another name first. Such a file must not
// be uploaded: its content follows with the document. Most programs rename it at once, but a busy machine, or a shell
// that starts `mv`, takes longer. Recognizing the names means that no other file has to wait.
extension ItemName {
    /// Suffixes of unfinished files.
    private static let suffixes: Set<String> = ["tmp", "temp", "new", "part", "partial", "lock"]
    /// Maximum possible documents per name.
    private static let maximumDocuments = 4

    /// Whether the name is a typical temporary one: mktemp's and Python's "tmp…", sed's, "NAME.new".
    package var isMadeUp: Bool {
        let plain = Self.unmarked(bytes)
        let text = String(decoding: plain, as: UTF8.self).lowercased()
        if text.hasPrefix("tmp"), plain.count >= 9 { return true }
        if text.hasPrefix("sed"), plain.count == 9, plain.allSatisfy(Self.isLetterOrDigit),
            plain.dropFirst(3).contains(where: { !(UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) })
        {
            return true
        }
        let suffix = stemAndExtension.suffix.dropFirst()
        return Self.suffixes.contains(String(decoding: suffix, as: UTF8.self).lowercased())
    }

    /// Documents for which a program would make this temporary name: "report.txt" for "report.txt.1234",
    /// ".report.txt.aB3xYz" and "report.txt-new". Only names with an extension count: otherwise "a.txt" would be a
    /// temporary name of "a".
    package var possibleDocuments: [ItemName] {
        let plain = Self.unmarked(bytes)
        var result = [ItemName](), end = plain.count
        if plain.count < bytes.count { result.append(ItemName(stored: plain)) }
        while end > 1, result.count < Self.maximumDocuments {
            end -= 1
            let isNumber = plain[end...].allSatisfy(Self.isDigit) && !Self.isDigit(plain[end - 1])
            guard isNumber || Self.isMark(plain[end]) else { continue }
            result.append(ItemName(stored: Array(plain[..<end])))
        }
        return result.filter { !$0.stemAndExtension.suffix.isEmpty && $0.bytes.last != UInt8(ascii: ".") }
    }

    /// The name without the character that hides or marks it.
    private static func unmarked(_ bytes: [UInt8]) -> [UInt8] {
        guard let first = bytes.first, bytes.count > 1, ".#~$_,".utf8.contains(first) else { return bytes }
        return Array(bytes.dropFirst())
    }

    private static func isMark(_ byte: UInt8) -> Bool { byte < 0x80 && !isLetterOrDigit(byte) }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        isDigit(byte) || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
    }
}
