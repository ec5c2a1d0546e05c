internal import CFUSE
internal import CUbiquityShims
internal import Glibc

/// Processors that a thread may run on.
struct ProcessorSet: Equatable, Sendable {
    private var words: [UInt64]

    private init(_ set: CUbiquity_ProcessorSet) {
        words = withUnsafeBytes(of: set) { Array($0.bindMemory(to: UInt64.self)) }
    }

    /// One processor; nil if its number is beyond what a set holds.
    init?(only processor: Int) {
        let empty = ProcessorSet(CUbiquity_ProcessorSet()).words
        guard processor >= 0, processor < empty.count * UInt64.bitWidth else { return nil }
        words = empty
        words[processor / UInt64.bitWidth] = 1 << UInt64(processor % UInt64.bitWidth)
    }

    /// Those that the calling thread may use; nil if the kernel does not say.
    static func ofThisThread() -> ProcessorSet? {
        var set = CUbiquity_ProcessorSet()
        return CUbiquity_processors(0, &set) >= 0 ? ProcessorSet(set) : nil
    }

    var count: Int { words.reduce(0) { $0 + $1.nonzeroBitCount } }

    func contains(_ other: ProcessorSet) -> Bool { zip(words, other.words).allSatisfy { $0 & $1 == $1 } }

    /// Has a thread of this process run there and nowhere else. One that is gone is nobody's concern.
    func confine(thread: Int32) {
        var set = CUbiquity_ProcessorSet()
        withUnsafeMutableBytes(of: &set) { bytes in words.withUnsafeBytes { bytes.copyMemory(from: $0) } }
        _ = CUbiquity_setProcessors(thread, &set)
    }

    /// The processor that a thread, of whatever process, runs on or last ran on; nil if that is not to be known.
    static func processor(ofThread thread: UInt32) -> Int? {
        guard let text = contents(of: "/proc/\(thread)/stat") else { return nil }
        // The program's name, in parentheses, may have any characters; fields are counted after it.
        guard let end = text.lastIndex(of: UInt8(ascii: ")")) else { return nil }
        let fields = text[(end + 1)...].split(separator: UInt8(ascii: " "))
        guard fields.count > processorField else { return nil }
        return Int(String(decoding: fields[processorField], as: UTF8.self))
    }

    /// proc(5): the 39th field of `stat`, the third being the first after the name.
    private static let processorField = 39 - 3

    private static func contents(of path: String) -> [UInt8]? {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        let bytes = [UInt8](unsafeUninitializedCapacity: 1024) { buffer, count in
            count = max(read(file, buffer.baseAddress, buffer.count), 0)
        }
        return bytes
    }

    /// The threads of this process.
    static func threads() -> [Int32] {
        guard let folder = opendir("/proc/self/task") else { return [] }
        defer { closedir(folder) }
        var found = [Int32]()
        while let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 1) { String(cString: $0) }
            }
            if let number = Int32(name) { found.append(number) }
        }
        return found
    }

    /// How many threads this process has: what the folder of them counts as links.
    static func threadCount() -> Int {
        var status = stat()
        return stat("/proc/self/task", &status) == 0 ? Int(status.st_nlink) - 2 : 0
    }
}
