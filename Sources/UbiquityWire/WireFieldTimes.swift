internal import FoundationEssentials
internal import UbiquityCore

extension [FieldTime] {
    /// Leaves out a field that only a newer program knows: its change counts as made with the last one.
    init(messages: [PBFieldTime]) throws(UbiquityError) {
        self.init()
        reserveCapacity(messages.count)
        for message in messages {
            guard let field = try FieldTime.Field(message: message) else { continue }
            append(FieldTime(field, at: Timestamp(nanoseconds: message.time)))
        }
    }
}

extension FieldTime {
    var message: PBFieldTime {
        var result = PBFieldTime()
        result.time = time.nanoseconds
        switch field {
        case .place: result.field = .place
        case .mode: result.field = .mode
        case .times: result.field = .times
        case .content: result.field = .content
        case .xattr(let name):
            result.field = .xattr
            result.name = Data(name)
        }
        return result
    }
}

extension FieldTime.Field {
    fileprivate init?(message: PBFieldTime) throws(UbiquityError) {
        switch message.field {
        case .place: self = .place
        case .mode: self = .mode
        case .times: self = .times
        case .content: self = .content
        case .xattr: self = .xattr(Array(message.name))
        case .unspecified: throw .malformed("the time of a change has no field")
        case .UNRECOGNIZED: return nil
        }
    }
}
