/// The encoding of a message: protobuf between programs, JSON (protobuf's own mapping) for people with `curl`.
package enum WireFormat: Sendable, CaseIterable {
    case protobuf, json

    package var mediaType: String {
        switch self {
        case .protobuf: "application/x-protobuf"
        case .json: "application/json"
        }
    }

    /// The format of a `Content-Type`, or the first known one of an `Accept` list. Nil if there is none. Parameters (";
    /// charset=utf-8") and weights are ignored.
    package init?(mediaType text: String) {
        for part in text.split(separator: ",") {
            let name = part.prefix { $0 != ";" }.filter { $0 != " " && $0 != "\t" }.lowercased()
            switch name {
            case "application/x-protobuf", "application/protobuf": self = .protobuf
            case "application/json", "*/*", "application/*": self = .json
            default: continue
            }
            return
        }
        return nil
    }

    /// The media type of a stream of chunks, see `ChunkFrame`.
    package static let chunkMediaType = "application/x-ubiquity-chunks"
}
