import Glibc

/// A state of a file: the save that made it, and the number of edits in place since.
struct FileState: Hashable, CustomStringConvertible {
    /// The id of the save that wrote the whole file; never used twice.
    var id: UInt64
    /// Edits in place since.
    var edit: UInt64 = 0
    /// Bytes.
    var size: Int

    var description: String { "\(id).\(edit).\(size)" }

    init(id: UInt64, edit: UInt64 = 0, size: Int) {
        self.id = id
        self.edit = edit
        self.size = size
    }

    init?(_ text: some StringProtocol) {
        let parts = text.split(separator: ".")
        guard parts.count == 3, let id = UInt64(parts[0]), let edit = UInt64(parts[1]), let size = Int(parts[2]) else {
            return nil
        }
        self.init(id: id, edit: edit, size: size)
    }

    var next: FileState { FileState(id: id, edit: edit + 1, size: size) }
}

/// The bytes of every file that the tests write. Each block of 4 KiB names the save or edit that wrote it, so a file
/// shows by itself whether it is one whole state.
enum Pattern {
    static let blockSize = 4096
    /// Id, edit, number of the block, size of the file: 8 bytes each.
    static let headerSize = 32
    private static let fillers = (0..<16).map(filler)

    private static func filler(_ number: Int) -> [UInt8] {
        var random = Random(seed: UInt64(number) &+ 77)
        return (0..<blockSize / 8).flatMap { _ in
            withUnsafeBytes(of: random.next()) { Array($0) }
        }
    }

    static func blocks(of size: Int) -> Int { (size + blockSize - 1) / blockSize }

    /// The blocks that an edit writes.
    static func range(ofEdit edit: UInt64, id: UInt64, size: Int) -> Range<Int> {
        var random = Random(seed: id &* 31 &+ edit)
        let count = blocks(of: size)
        let start = random.below(count)
        return start..<min(count, start + 1 + random.below(24))
    }

    /// For each block of a state, the edit that wrote it (0: the save).
    static func writers(of state: FileState) -> [UInt64] {
        var writers = [UInt64](repeating: 0, count: blocks(of: state.size))
        guard state.edit > 0 else { return writers }
        for edit in 1...state.edit {
            for block in range(ofEdit: edit, id: state.id, size: state.size) { writers[block] = edit }
        }
        return writers
    }

    static func block(_ index: Int, _ edit: UInt64, id: UInt64, size: Int) -> ArraySlice<UInt8> {
        var bytes = fillers[Int((id &+ edit) % 16)]
        let header = [id, edit, UInt64(index), UInt64(size)]
        // Copies memory, here and below: this program is built without optimisation and reads every file many times.
        header.withUnsafeBytes { header in bytes.withUnsafeMutableBytes { $0.copyMemory(from: header) } }
        return bytes.prefix(min(blockSize, size - index * blockSize))
    }

    /// All bytes of a state without edits.
    static func bytes(of state: FileState) -> [UInt8] {
        (0..<blocks(of: state.size)).flatMap { block($0, 0, id: state.id, size: state.size) }
    }

    /// The bytes of an edit, and their offset.
    static func bytes(ofEdit state: FileState) -> (offset: Int, bytes: [UInt8]) {
        let range = range(ofEdit: state.edit, id: state.id, size: state.size)
        return (range.lowerBound * blockSize, range.flatMap { block($0, state.edit, id: state.id, size: state.size) })
    }

    /// The classification of a file's bytes.
    enum Finding: Hashable {
        case state(FileState)
        /// Blocks of several edits that together are no valid state, with the edit of each block.
        case mixed(FileState, [UInt64])
        case torn(String)
        case empty
    }

    static func examine(_ bytes: [UInt8]) -> Finding {
        guard !bytes.isEmpty else { return .empty }
        guard bytes.count >= headerSize else { return .torn("only \(bytes.count) bytes") }
        let first = header(bytes, 0)
        guard first.size == UInt64(bytes.count) else { return .torn("\(bytes.count) bytes instead of \(first.size)") }
        var edits = [UInt64]()
        for index in 0..<blocks(of: bytes.count) {
            let here = bytes[index * blockSize..<min(bytes.count, (index + 1) * blockSize)]
            let edit = here.count >= headerSize ? header(bytes, index * blockSize).edit : 0
            guard isSame(here, block(index, edit, id: first.id, size: bytes.count)) else {
                return .torn("block \(index) of \(blocks(of: bytes.count)) is not of save \(first.id), edit \(edit)")
            }
            edits.append(edit)
        }
        let state = FileState(id: first.id, edit: edits.max() ?? 0, size: bytes.count)
        return writers(of: state) == edits ? .state(state) : .mixed(state, edits)
    }

    private static func isSame(_ left: ArraySlice<UInt8>, _ right: ArraySlice<UInt8>) -> Bool {
        guard left.count == right.count else { return false }
        return left.withUnsafeBytes { left in
            right.withUnsafeBytes { right in
                guard let left = left.baseAddress, let other = right.baseAddress else { return true }
                return memcmp(left, other, right.count) == 0
            }
        }
    }

    private static func header(_ bytes: [UInt8], _ position: Int) -> (id: UInt64, edit: UInt64, size: UInt64) {
        bytes.withUnsafeBytes { buffer in
            func word(_ index: Int) -> UInt64 { buffer.loadUnaligned(fromByteOffset: position + index * 8, as: UInt64.self) }
            return (word(0), word(1), word(3))
        }
    }
}

/// A random generator with the same numbers for the same seed.
struct Random {
    private var state: UInt64

    init(seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 ^ 0xD1B5_4A32_D192_ED03 }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(max(1, bound))) }
    mutating func chance(_ percent: Int) -> Bool { below(100) < percent }
    mutating func pick<Element>(_ elements: [Element]) -> Element { elements[below(elements.count)] }
}
