/// Changes valid samples a little, so that a parser gets past its first checks.
package struct Mutator: Sendable {
    /// Texts with a meaning for the parser.
    private let words: [[UInt8]]

    /// Largest size of a sample in bytes: longer samples cost time and find no more.
    private static let maximumLength = 64 << 10
    /// One in so many executions repeats a part of its sample up to this length, for limits on memory.
    private static let rareLength = 1 << 20
    private static let rarity = 400

    package init(words: [String] = []) { self.words = words.map { Array($0.utf8) } }

    /// - Parameter other: another sample; the mutation may insert a part of it.
    package func mutate(_ sample: [UInt8], with other: [UInt8], _ random: inout FuzzRandom) -> [UInt8] {
        var bytes = sample
        // Some samples stay valid, so that the steps after the parser run too.
        if random.oneIn(8) { return bytes }
        for _ in 0...random.below(random.oneIn(4) ? 12 : 3) { step(&bytes, other, &random) }
        if random.oneIn(Self.rarity), !bytes.isEmpty {
            let part = Array(bytes[range(in: bytes, &random)])
            if !part.isEmpty {
                let count = random.below(Self.rareLength) / part.count
                let place = random.below(bytes.count + 1)
                bytes.insert(contentsOf: [[UInt8]](repeating: part, count: count).joined(), at: place)
            }
        } else if bytes.count > Self.maximumLength {
            bytes.removeLast(bytes.count - Self.maximumLength)
        }
        return bytes
    }

    private func range(in bytes: [UInt8], _ random: inout FuzzRandom) -> Range<Int> {
        guard !bytes.isEmpty else { return 0..<0 }
        let start = random.below(bytes.count)
        let length = random.oneIn(8) ? random.below(bytes.count - start + 1) : random.below(min(17, bytes.count - start + 1))
        return start..<(start + length)
    }

    private func step(_ bytes: inout [UInt8], _ other: [UInt8], _ random: inout FuzzRandom) {
        let place = random.below(bytes.count + 1)
        switch random.below(13) {
        case 0:
            if place < bytes.count { bytes[place] ^= 1 << UInt8(random.below(8)) }
        case 1:
            if place < bytes.count { bytes[place] = random.pick([0, 1, 0x7F, 0x80, 0xFF, random.byte()]) }
        case 2: bytes.insert(contentsOf: random.bytes(random.below(9)), at: place)
        case 3: bytes.removeSubrange(range(in: bytes, &random))
        case 4:
            let part = Array(bytes[range(in: bytes, &random)])
            bytes.insert(contentsOf: part, at: place)
        case 5:
            let part = Array(bytes[range(in: bytes, &random)])
            for _ in 0...random.below(40) where bytes.count < Self.maximumLength {
                bytes.insert(contentsOf: part, at: min(place, bytes.count))
            }
        case 6: bytes.insert(contentsOf: other[range(in: other, &random)], at: place)
        case 7:
            // The beginning of one sample and the end of another.
            bytes = Array(bytes.prefix(place)) + other.suffix(random.below(other.count + 1))
        case 8: bytes.removeLast(bytes.count - place)
        case 9: overwrite(&bytes, at: place, with: Self.varint(UInt64(bitPattern: random.oddNumber())))
        case 10:
            let number = UInt64(bitPattern: random.oddNumber())
            let width = random.pick([1, 2, 4, 8]), isBig = random.oneIn(2)
            let digits = (0..<width).map { UInt8(truncatingIfNeeded: number >> UInt64($0 * 8)) }
            overwrite(&bytes, at: place, with: isBig ? digits.reversed() : digits)
        case 11: changeLength(&bytes, at: place, &random)
        default:
            guard !words.isEmpty else { return bytes.insert(random.byte(), at: place) }
            let word = random.pick(words)
            if random.oneIn(2) {
                bytes.insert(contentsOf: word, at: place)
            } else {
                bytes.replaceSubrange(range(in: bytes, &random), with: word)
            }
        }
    }

    private func overwrite(_ bytes: inout [UInt8], at place: Int, with new: [UInt8]) {
        bytes.replaceSubrange(place..<min(place + new.count, bytes.count), with: new)
    }

    /// Makes a small number a little larger or smaller, because it may be a length. Sometimes inserts or removes the
    /// bytes after it too.
    private func changeLength(_ bytes: inout [UInt8], at place: Int, _ random: inout FuzzRandom) {
        guard let found = bytes[place...].firstIndex(where: { $0 > 0 && $0 < 0x80 }) else { return }
        let change = random.pick([-2, -1, 1, 2])
        let new = Int(bytes[found]) + change
        guard (0..<0x80).contains(new) else { return }
        bytes[found] = UInt8(new)
        guard random.oneIn(2) else { return }
        if change > 0 {
            bytes.insert(contentsOf: random.bytes(change), at: found + 1)
        } else {
            bytes.removeSubrange((found + 1)..<min(found + 1 - change, bytes.count))
        }
    }

    package static func varint(_ number: UInt64) -> [UInt8] {
        var rest = number, result = [UInt8]()
        while rest >= 0x80 {
            result.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        return result + [UInt8(rest)]
    }
}
