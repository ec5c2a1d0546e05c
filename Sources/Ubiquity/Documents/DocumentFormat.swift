import FoundationEssentials
import UbiquityCore
import UbiquitySystem

/// A document's format, with marks for older programs: which of them may change the document, and which may read it.
///
/// The marks are an attribute of the file and travel with it. A document class sets them in `format`. A program whose
/// format is older then opens the document for reading only, or not at all, instead of damaging it.
///
/// - Source: this library; the session "Advanced iCloud Document Storage" of 2012 advises it.
public struct DocumentFormat: Hashable, Sendable {
    /// The rights of a program at a document.
    public enum Access: Hashable, Sendable {
        /// It may read and change the document.
        case readWrite
        /// It may read the document and must not save it.
        case readOnly
        /// It must not open the document.
        case none
    }

    /// The extended attribute with the three numbers.
    static let attribute = Array("user.document.format".utf8)
    /// Bytes. A longer value is not a mark of this library.
    private static let maximumLength = 64

    /// The version of the written document.
    public let version: Int
    /// The oldest version of a program that may change the document.
    public let oldestWriter: Int
    /// The oldest version of a program that may read the document.
    public let oldestReader: Int

    /// Makes a format.
    ///
    /// - Parameters:
    ///   - version: The version of the documents that the program writes.
    ///   - oldestWriter: The oldest version that may change them; `version` by default.
    ///   - oldestReader: The oldest version that may read them; `oldestWriter` by default.
    public init(version: Int, oldestWriter: Int? = nil, oldestReader: Int? = nil) {
        self.version = version
        self.oldestWriter = oldestWriter ?? version
        self.oldestReader = oldestReader ?? self.oldestWriter
    }

    /// Returns the rights of a program of another version at a document of this format.
    ///
    /// - Parameter version: The version of the program.
    public func access(forVersion version: Int) -> Access {
        if version >= self.version || version >= oldestWriter { return .readWrite }
        return version >= oldestReader ? .readOnly : .none
    }

    /// The marks of a file; nil if it has none. Blocks.
    static func read(_ path: String) throws(UbiquityError) -> DocumentFormat? {
        let value = try describing("read the document's format", at: path) { () throws(Errno) -> [UInt8]? in
            // File systems without attributes hold no marks.
            do throws(Errno) { return try FileSystem.xattr(path, attribute) } catch .EOPNOTSUPP { return nil }
        }
        return value.flatMap { DocumentFormat(marks: $0) }
    }

    init?(marks: [UInt8]) {
        guard marks.count <= Self.maximumLength else { return nil }
        let numbers = String(decoding: marks, as: UTF8.self).split(separator: " ").map { Int($0) }
        guard numbers.count == 3, let version = numbers[0], let writer = numbers[1], let reader = numbers[2] else {
            return nil
        }
        self.init(version: version, oldestWriter: writer, oldestReader: reader)
    }

    var marks: [UInt8] { Array("\(version) \(oldestWriter) \(oldestReader)".utf8) }

    /// Writes the marks. Blocks.
    func write(to path: String) throws(UbiquityError) {
        try describing("write the document's format", at: path) { () throws(Errno) in
            do throws(Errno) { try FileSystem.setXattr(path, Self.attribute, marks) } catch .EOPNOTSUPP {}
        }
    }
}
