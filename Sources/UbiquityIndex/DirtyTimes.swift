package import UbiquityCore

// When each field was changed. The last change has its time in `dirtyAt`; a field that was changed before that keeps
// its own, so that the cloud can tell which device changed it later. So does a content of which the index was told
// late, as writes are noted at the close.
extension ItemRow {
    /// Fields are changed now; nothing of those that were changed before is to count as changed now.
    mutating func noteTimes(of fields: DirtyFields, xattrs: some Sequence<[UInt8]>, now: Timestamp) {
        for name in xattrs { setTime(of: .xattr(name), now) }
        // What the cloud has not seen nobody else has changed.
        if !dirty.contains(.created), dirtyAt != now {
            for (flag, field) in Self.timed where dirty.contains(flag) && !fields.contains(flag) {
                if dirtyTimes[field] == nil { setTime(of: field, dirtyAt) }
            }
        }
        for (flag, field) in Self.timed where fields.contains(flag) { setTime(of: field, nil) }
    }

    /// The content was written before it was noted just now.
    /// - Parameters:
    ///   - written: the backing file's ctime. One from long before what was known already is another clock's, and not
    ///     believed.
    ///   - known: when the row was changed last, as far as it was known.
    ///   - before: `dirtyAt` as it was.
    mutating func noteWritten(at written: Timestamp, known: Timestamp, before: Timestamp) {
        guard written.advanced(bySeconds: Self.otherClock) >= known else { return }
        // Renamed after that, or the like: the note may be of a close alone, and later than all of it.
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

    /// Seconds. More than clocks of one machine are apart.
    private static let otherClock = 86_400.0

    /// Seconds. A close that comes so soon counts as the last write: most do, and nothing is kept of them.
    private static let promptClose = 0.005

    /// When what is dirty was changed last.
    package var lastChange: Timestamp {
        guard !dirtyTimes.isEmpty else { return dirtyAt }
        var left = dirty, last: Timestamp?
        // Something that was made is changed when its first content is.
        if left.contains(.content) { left.remove(.created) }
        for each in dirtyTimes {
            left.remove(each.field.flag)
            last = max(each.time, last ?? each.time)
        }
        return left.isEmpty ? last ?? dirtyAt : dirtyAt
    }

    /// Names of attributes that were set or removed here and are not known to be at the cloud.
    package var changedXattrs: Set<[UInt8]> {
        Set(
            dirtyTimes.compactMap { each in
                if case .xattr(let name) = each.field { name } else { nil }
            })
    }

    /// The cloud has the attributes as they were sent: what is as it was then has not been changed since.
    package mutating func noteSent(xattrs sent: [Xattr]) {
        let changed = Set(Set(xattrs).symmetricDifference(sent).map(\.name)), known = changedXattrs
        for name in known.subtracting(changed) { setTime(of: .xattr(name), nil) }
        for name in changed.subtracting(known) { setTime(of: .xattr(name), dirtyAt) }
    }

    private static let timed: [(DirtyFields, FieldTime.Field)] = [
        (.place, .place), (.mode, .mode), (.times, .times), (.content, .content),
    ]

    /// For the fields that a change is about.
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
    /// The mark of a change of it.
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
