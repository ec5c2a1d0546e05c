package import UbiquityCore

// The times at which fields were changed. The last change's time is in `dirtyAt`. A field changed earlier keeps its own
// time, so that the cloud can decide which device changed it later. A content also keeps its own time if it was
// recorded late, because writes are recorded at the close.
extension ItemRow {
    /// Records that fields change now. Fields changed earlier keep their times.
    mutating func noteTimes(of fields: DirtyFields, xattrs: some Sequence<[UInt8]>, now: Timestamp) {
        for name in xattrs { setTime(of: .xattr(name), now) }
        // No other device can have changed an item that the cloud has not seen, so its times do not matter.
        if !dirty.contains(.created), dirtyAt != now {
            for (flag, field) in Self.timed where dirty.contains(flag) && !fields.contains(flag) {
                if dirtyTimes[field] == nil { setTime(of: field, dirtyAt) }
            }
        }
        for (flag, field) in Self.timed where fields.contains(flag) { setTime(of: field, nil) }
    }

    /// Records that the content was written before it was recorded just now.
    ///
    /// - Parameters:
    ///   - written: The backing file's ctime. If it is long before `known`, it comes from another clock and is ignored.
    ///   - known: The time of the row's last known change.
    ///   - before: `dirtyAt` before this change.
    mutating func noteWritten(at written: Timestamp, known: Timestamp, before: Timestamp) {
        guard written.advanced(bySeconds: Self.otherClock) >= known else { return }
        // A rename or another change may have followed, and the record may come from a close alone, after all of them.
        let time = max(written, known)
        guard time.advanced(bySeconds: Self.promptClose) < dirtyAt else { return }
        if dirty.contains(.created) {
            for (flag, field) in Self.timed where dirty.contains(flag) && dirtyTimes[field] == nil {
                setTime(of: field, before)
            }
        }
        setTime(of: .content, time)
        setTime(of: .times, time)
    }

    /// Seconds. The clocks of one machine never differ by more.
    private static let otherClock = 86_400.0

    /// Seconds. A close within this time counts as the last write; most closes do, and need no time of their own.
    private static let promptClose = 0.005

    /// The time of the last change of the dirty fields.
    package var lastChange: Timestamp {
        guard !dirtyTimes.isEmpty else { return dirtyAt }
        var left = dirty, last: Timestamp?
        // A new item counts as changed when its first content is.
        if left.contains(.content) { left.remove(.created) }
        for each in dirtyTimes {
            left.remove(each.field.flag)
            last = max(each.time, last ?? each.time)
        }
        return left.isEmpty ? last ?? dirtyAt : dirtyAt
    }

    /// Names of attributes set or removed here and not known to be at the cloud.
    package var changedXattrs: Set<[UInt8]> {
        Set(
            dirtyTimes.compactMap { each in
                if case .xattr(let name) = each.field { name } else { nil }
            })
    }

    /// Records that the cloud has the attributes as sent. Attributes equal to the sent ones are no longer changed.
    package mutating func noteSent(xattrs sent: [Xattr]) {
        let changed = Set(Set(xattrs).symmetricDifference(sent).map(\.name)), known = changedXattrs
        for name in known.subtracting(changed) { setTime(of: .xattr(name), nil) }
        for name in changed.subtracting(known) { setTime(of: .xattr(name), dirtyAt) }
    }

    private static let timed: [(DirtyFields, FieldTime.Field)] = [
        (.place, .place), (.mode, .mode), (.times, .times), (.content, .content),
    ]

    /// Returns the own times of the fields in a change.
    package func earlierTimes(of fields: ChangedFields) -> [FieldTime] {
        guard !dirtyTimes.isEmpty else { return [] }
        let changed = Set(fields.xattrsSet.map(\.name) + fields.xattrsRemoved)
        return dirtyTimes.filter { each in
            guard each.time != dirtyAt else { return false }
            return switch each.field {
            case .place: fields.place != nil
            case .mode: fields.mode != nil
            case .times: fields.modifiedAt != nil
            case .content: fields.content != nil
            case .xattr(let name): changed.contains(name)
            }
        }
    }
}

extension FieldTime.Field {
    /// The dirty flag of the field.
    var flag: DirtyFields {
        switch self {
        case .place: .place
        case .mode: .mode
        case .times: .times
        case .content: .content
        case .xattr: .xattrs
        }
    }
}
