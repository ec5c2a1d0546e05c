package import UbiquityCore

/// The fields of an item that a newer program has set and this one does not know. A new field of an item has the same
/// number in `Item` and in `ChangedFields`.
package enum UnknownFields {
    /// Bytes that a cloud keeps with one item.
    package static let limit = 4096

    /// The fields after a change: a field of the change replaces those of its number.
    /// - Throws: `.tooLarge`.
    package static func merge(_ change: [UInt8], into known: [UInt8]) throws(UbiquityError) -> [UInt8] {
        guard !change.isEmpty else { return known }
        let new = fields(of: change), numbers = Set(new.map(\.number))
        let merged = (fields(of: known).filter { !numbers.contains($0.number) } + new).flatMap(\.bytes)
        guard merged.count <= limit else {
            throw UbiquityError(
                .tooLarge,
                "an item has more than \(ByteSize.text(Int64(limit))) of fields that the cloud does not know",
                remedy: "update the cloud")
        }
        return merged
    }

    private static func fields(of bytes: [UInt8]) -> [(number: Int, bytes: ArraySlice<UInt8>)] {
        bytes.withUnsafeBytes { raw in
            var reader = WireReader(raw, 0..<raw.count), found = [(number: Int, bytes: ArraySlice<UInt8>)]()
            while let field = reader.next() {
                // Groups are not used in these messages.
                guard field.type != 3, field.type != 4 else { continue }
                found.append((field.number, bytes[field.whole]))
            }
            return found
        }
    }
}
