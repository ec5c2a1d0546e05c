package import UbiquityCore

// Messages of the key-value store, in plain JSON. Values are base64 of `PropertyValue`'s encoding, times are
// nanoseconds since 1970, ids are hexadecimal.

/// The key-value stores of one container at a cloud, as a device sees them.
///
/// Every call throws `UbiquityError` as the calls of `CloudService` do. A cloud without key-value stores answers
/// `.notFound`.
package protocol KeyValueService: Sendable {
    /// Records changed after a point, in the order of their revisions. A page ends when its values have
    /// `KeyValueLimits.pageBytes`. Creates the container if it is missing and the token allows it.
    func keyValues(after point: KeyValuePoint) async throws -> KeyValuePage

    /// Applies the sets, each by itself. A repetition of a set has no second effect.
    /// - Returns: one result for each set, in their order.
    /// - Throws: `.invalid` if a set is malformed: then nothing is applied.
    func push(_ push: KeyValuePush) async throws -> [KeyValueResult]

    /// The revisions that the cloud announces, over the connection for `CloudService.news`. They are hints.
    func keyValueNews() -> AsyncStream<Revision>
}

/// A set in a message.
package struct KeyValueEntryMessage: Codable, Hashable, Sendable {
    package var value: String?
    package var time: Int64
    package var device: String
    package var deviceName: String
    package var mark: UInt64

    package init(_ entry: KeyValueEntry) {
        value = entry.value.map(Base64.encode)
        time = entry.stamp.time
        device = entry.stamp.device.description
        deviceName = entry.deviceName
        mark = entry.mark
    }

    /// Throws `.invalid`.
    package func entry() throws(UbiquityError) -> KeyValueEntry {
        guard let device = DeviceID(hex: device) else { throw .malformed("a device's id is 32 hexadecimal digits") }
        try checkDeviceName(deviceName)
        var bytes: [UInt8]?
        if let value {
            guard let decoded = Base64.decode(value) else { throw .malformed("a value is not base64") }
            guard PropertyValue.size(ofEncoded: decoded) <= KeyValueLimits.maximumBytes else {
                throw .malformed("a value has more than \(KeyValueLimits.maximumBytes) bytes")
            }
            _ = try PropertyValue(encoded: decoded)
            bytes = decoded
        }
        return KeyValueEntry(
            value: bytes, stamp: KeyValueStamp(time: time, device: device), deviceName: deviceName, mark: mark)
    }
}

/// A record of the feed.
package struct KeyValueRecordMessage: Codable, Hashable, Sendable {
    package var store: String
    package var key: String
    package var revision: Int64
    package var current: KeyValueEntryMessage
    /// The set before the current one.
    package var previous: KeyValueEntryMessage?

    package init(_ record: KeyValueRecord) {
        store = record.store.name
        key = record.key.text
        revision = record.revision.number
        current = KeyValueEntryMessage(record.register.current)
        previous = record.register.previous.map(KeyValueEntryMessage.init)
    }

    /// Throws `.invalid`, `.invalidName`.
    package func record() throws(UbiquityError) -> KeyValueRecord {
        guard revision > 0 else { throw .malformed("a revision is not positive") }
        var old: KeyValueEntry?
        if let previous { old = try previous.entry() }
        return KeyValueRecord(
            store: try KeyValueStoreID(store), key: try KeyValueKey(key), revision: Revision(revision),
            register: KeyValueRegister(try current.entry(), previous: old))
    }
}

/// A page of the feed.
package struct KeyValuePageMessage: Codable, Hashable, Sendable {
    package var records: [KeyValueRecordMessage]
    package var revision: Int64
    package var hasMore: Bool
    package var incarnation: UInt64
    package var forgotten: Int64

    package init(_ page: KeyValuePage) {
        records = page.records.map(KeyValueRecordMessage.init)
        revision = page.revision.number
        hasMore = page.hasMore
        incarnation = page.incarnation
        forgotten = page.forgotten.number
    }

    /// Throws `.invalid`, `.invalidName`.
    package func page() throws(UbiquityError) -> KeyValuePage {
        guard revision >= 0, forgotten >= 0 else { throw .malformed("a revision is negative") }
        var found = [KeyValueRecord]()
        for record in records { found.append(try record.record()) }
        return KeyValuePage(
            records: found, revision: Revision(revision), hasMore: hasMore, incarnation: incarnation,
            forgotten: Revision(forgotten))
    }
}

/// A set to apply.
package struct KeyValueChangeMessage: Codable, Hashable, Sendable {
    package var store: String
    package var key: String
    package var entry: KeyValueEntryMessage
    /// The latest hybrid time that the device had seen before the set.
    package var seen: Int64
    /// Whether a cloud has decided about the time before.
    package var final: Bool?

    package init(_ change: KeyValueChange) {
        store = change.store.name
        key = change.key.text
        entry = KeyValueEntryMessage(change.entry)
        seen = change.seen
        final = change.isFinal ? true : nil
    }
}

/// Sets to apply.
package struct KeyValuePushMessage: Codable, Hashable, Sendable {
    package var device: String
    package var sentAt: Int64
    package var changes: [KeyValueChangeMessage]

    package init(_ push: KeyValuePush) {
        device = push.device.description
        sentAt = push.sentAt.nanoseconds
        changes = push.changes.map(KeyValueChangeMessage.init)
    }

    /// Throws `.invalid`, `.invalidName`.
    package func push() throws(UbiquityError) -> KeyValuePush {
        guard let device = DeviceID(hex: device) else { throw .malformed("a device's id is 32 hexadecimal digits") }
        guard (1...KeyValueLimits.maximumChanges).contains(changes.count) else {
            throw .malformed("a push of \(changes.count) changes, not 1 to \(KeyValueLimits.maximumChanges)")
        }
        var found = [KeyValueChange]()
        for change in changes {
            found.append(
                KeyValueChange(
                    store: try KeyValueStoreID(change.store), key: try KeyValueKey(change.key),
                    entry: try change.entry.entry(), seen: change.seen, isFinal: change.final ?? false))
        }
        return KeyValuePush(device: device, sentAt: Timestamp(nanoseconds: sentAt), changes: found)
    }
}

/// The results of a push, in the order of its sets.
package struct KeyValueAnswerMessage: Codable, Hashable, Sendable {
    package struct Result: Codable, Hashable, Sendable {
        /// "applied", "superseded" or "refused".
        package var outcome: String
        package var record: KeyValueRecordMessage?
    }

    package var results: [Result]

    package init(_ results: [KeyValueResult]) {
        self.results = results.map {
            Result(outcome: $0.outcome.rawValue, record: $0.record.map(KeyValueRecordMessage.init))
        }
    }

    /// Throws `.invalid`, `.invalidName`.
    package func found() throws(UbiquityError) -> [KeyValueResult] {
        var found = [KeyValueResult]()
        for result in results {
            guard let outcome = KeyValueResult.Outcome(rawValue: result.outcome) else {
                throw .malformed("the outcome of a set is unknown")
            }
            found.append(KeyValueResult(outcome: outcome, record: try result.record?.record()))
        }
        return found
    }
}
