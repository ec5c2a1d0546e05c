import UbiquityCore

/// Splits a stream of bytes into lines, regardless of how the bytes arrive.
package struct LineSplitter {
    /// Maximum bytes of a line. One message names at most a few paths of 4096 bytes; a status names 100.
    static let maximumLineLength = 4 * 1024 * 1024

    private var rest = [UInt8]()

    package init() {}

    /// Returns the lines that these bytes complete, without their line ends.
    ///
    /// - Throws: `.tooLarge` if an incomplete line exceeds the limit.
    package mutating func lines(adding bytes: some Sequence<UInt8>) throws(UbiquityError) -> [[UInt8]] {
        var lines = [[UInt8]]()
        for byte in bytes {
            if byte == UInt8(ascii: "\n") {
                if rest.last == UInt8(ascii: "\r") { rest.removeLast() }
                lines.append(rest)
                rest = []
            } else {
                rest.append(byte)
            }
        }
        guard rest.count <= Self.maximumLineLength else {
            throw UbiquityError(.tooLarge, "a control message is longer than \(Self.maximumLineLength) bytes")
        }
        return lines
    }
}
