internal import FoundationEssentials
internal import UbiquityCore

// The small values of the messages, checked. `what` names the value in the reason.

extension UbiquityError {
    static func malformed(_ reason: String) -> UbiquityError { UbiquityError(.invalid, reason) }
}

extension Identifier {
    init(wire data: Data, _ what: String) throws(UbiquityError) {
        guard let id = Identifier(bytes: data) else { throw .malformed("\(what) has \(data.count) bytes, not 16") }
        self = id
    }

    var data: Data { Data(bytes) }
}

extension ChunkID {
    init(wire data: Data) throws(UbiquityError) {
        guard let id = ChunkID(bytes: data) else { throw .malformed("a chunk's id has \(data.count) bytes, not 32") }
        self = id
    }

    var data: Data { Data(bytes) }
}

extension Revision {
    init(wire number: Int64) throws(UbiquityError) {
        guard number >= 0 else { throw .malformed("a revision is negative: \(number)") }
        self.init(number)
    }
}

extension ItemName {
    init(wire text: String) throws(UbiquityError) {
        do {
            self = try ItemName(text)
        } catch {
            throw .malformed("a name of \(text.utf8.count) bytes cannot be used: \(error)")
        }
    }
}

extension PBKind {
    /// Whether this version of the program knows the value. A missing value is an error.
    var isKnown: Bool {
        if case .UNRECOGNIZED = self { false } else { true }
    }
}

extension ItemKind {
    init(wire kind: PBKind) throws(UbiquityError) {
        switch kind {
        case .file: self = .file
        case .directory: self = .directory
        case .symlink: self = .symlink
        case .hardLink: self = .hardLink
        case .unspecified: throw .malformed("an item's kind is missing")
        case .UNRECOGNIZED(let number):
            throw UbiquityError(
                .invalid, "an item is of kind \(number), which this version does not know",
                remedy: "install the newer ubiquity")
        }
    }

    var wire: PBKind {
        switch self {
        case .file: .file
        case .directory: .directory
        case .symlink: .symlink
        case .hardLink: .hardLink
        // These are never sent. A receiver refuses an item without a kind.
        case .fifo, .socket, .characterDevice, .blockDevice: .unspecified
        }
    }
}

extension Xattr {
    init(message: PBXattr) { self.init(name: Array(message.name), value: Array(message.value)) }

    var message: PBXattr {
        var result = PBXattr()
        result.name = Data(name)
        result.value = Data(value)
        return result
    }
}

extension PBManifest {
    init(_ manifest: Manifest) {
        self.init()
        chunks = manifest.map { reference in
            var chunk = PBChunkReference()
            chunk.id = reference.id.data
            chunk.length = UInt32(clamping: reference.length)
            return chunk
        }
    }

    /// The chunks, each checked for its length.
    func manifest() throws(UbiquityError) -> Manifest {
        guard chunks.count <= Limits.maximumChunksPerContent else { throw .malformed("a content of too many chunks") }
        var result = Manifest()
        result.reserveCapacity(chunks.count)
        for chunk in chunks {
            let reference = ChunkReference(id: try ChunkID(wire: chunk.id), length: Int(chunk.length))
            try reference.check()
            result.append(reference)
        }
        return result
    }
}
