internal import UbiquityCore
internal import UbiquitySystem

/// The journal in `index.journal`: the changes of local transactions since the database's last commit, one short write
/// each.
///
/// An SQLite commit writes every page it touched, some twenty for a new file. So local transactions gather in one open
/// database transaction, the batch. Each is acknowledged once its statements are in the journal; after a crash they run
/// again from there (`IndexLog+Batch`). The database stores the number of its last transaction as `meta.journal`.
/// After a commit the journal restarts at its beginning, and the numbers continue. It does not restart while that would
/// overwrite entries promised by a sync (`IndexDurability`); it continues behind them instead.
///
/// A record: length of the payload (4 bytes), checksum (8), number (8), payload (`JournalCoding`). Reading ends at a
/// record that is incomplete or does not have the next number; remains of an earlier batch have smaller numbers. If the
/// first record is not the one after the database's last, a power loss took commits before it. The records then do not
/// count: they were not synced either.
///
/// Lost numbers are given again. So each opening draws a number of its own, its life (`meta.life`), which is part of
/// the checksums: remains of an earlier life never form a valid record. The number of the file's first record is part
/// of the checksums too. So records from before the last restart are never taken for later ones, whichever of the
/// file's pages reached the disk.
///
/// All methods but `sync` require the turn with the journal (`IndexDatabase.withJournal`), which makes sharing safe.
final class IndexJournal: @unchecked Sendable {
    /// Bytes of the journal's part of the file, allocated from the start so that accepted entries fit on a full disk.
    /// The part behind it belongs to another user, whose bytes are synced with the journal.
    static let capacity: Int64 = 1 << 20
    /// Transactions gathered before a commit: a restart runs them again, and a failed transaction undoes them.
    static let maximumBatch = 512
    private static let headerSize = 20

    static func path(ofIndexAt path: String) -> String { Path.join(Path.parent(of: path), "index.journal") }

    private let file: FileDescriptor
    /// The device on which the sync of another file also flushes what `finishWriting` has sent; nil if only a sync of
    /// this file does.
    private(set) var flushDevice: UInt64?
    private var position: Int64 = 0
    private var texts: [String: UInt16] = [:]
    /// The opening of the index that wrote the current records; 0 for files that record none.
    private var life: UInt64 = 0
    /// The number of the file's first record.
    private var first: UInt64 = 0
    /// The number of the last transaction.
    private(set) var sequence: UInt64 = 0
    /// The transactions that the database has not committed.
    private(set) var batch: [[JournalStatement]] = []
    /// How many of the batch's transactions have run in the open database transaction.
    private(set) var runCount = 0
    /// The end, within the batch, of the last transaction that must run at once; 0 if there is none.
    private var urgentEnd = 0
    /// Whether the file lacks the batch's last transaction, which did not fit.
    private(set) var lacksLast = false
    private(set) var durability = IndexDurability()

    /// Whether the file had the journal's full length when it was opened.
    private let wasWhole: Bool

    init(path: String) throws(Errno) {
        file = try FileDescriptor.openFile(path, [.readWrite, .create])
        wasWhole = try file.status().size >= Self.capacity
        try takeRoom()
    }

    /// Opens the file for examination only.
    init(reading path: String) throws(Errno) {
        file = try FileDescriptor.openFile(path, .readOnly)
        wasWhole = try file.status().size >= Self.capacity
    }

    private func takeRoom() throws(Errno) {
        if try file.status().size < Self.capacity { try file.allocate([], 0..<Self.capacity) }
        flushDevice = try file.sharedFlushes()
        // If filling fails, the journal always needs a sync of its own.
        if flushDevice != nil, (try? fillRoom()) == nil { flushDevice = nil }
    }

    /// Writes the whole journal with its current bytes. File systems mark allocated space as unwritten; the first write
    /// changes that mark, and only a sync of this file makes the change durable. SEEK_HOLE cannot find such space (it
    /// takes a page that was read for data), so everything is written.
    private func fillRoom() throws(Errno) {
        var bytes = try file.read(count: Int(Self.capacity), at: 0)
        bytes += [UInt8](repeating: 0, count: Int(Self.capacity) - bytes.count)
        try file.write(bytes, at: 0)
        try file.syncData()
    }

    var isLong: Bool { batch.count >= Self.maximumBatch }
    /// Whether the journal should soon restart.
    var isTight: Bool { position > Self.capacity / 2 }

    /// Writes a transaction to the journal. When this returns, it survives the death of the process.
    ///
    /// - Parameter isChange: Whether the next `fsync` must make it durable.
    /// - Returns: False if it does not fit; then only a commit makes it survive.
    func append(_ statements: [JournalStatement], isChange: Bool = true) throws(Errno) -> Bool {
        let known = texts
        let number = sequence + 1
        if position == 0 { first = number }
        // When a whole subtree is included in sync or pinned, each row is a statement.
        guard statements.count <= JournalCoding.maximumStatements else {
            note(number, statements, endsAt: nil, isChange: isChange)
            return false
        }
        let record = record(number, JournalCoding.encode(statements, texts: &texts))
        let fits = position + Int64(record.count) <= Self.capacity
        do throws(Errno) {
            if fits { try file.write(record, at: position) }
        } catch {
            texts = known
            throw error
        }
        note(number, statements, endsAt: fits ? position + Int64(record.count) : nil, isChange: isChange)
        return fits
    }

    private func record(_ number: UInt64, _ payload: [UInt8]) -> [UInt8] {
        var record = [UInt8]()
        record.reserveCapacity(Self.headerSize + payload.count)
        JournalCoding.append(UInt32(payload.count), to: &record)
        JournalCoding.append(checksum(number, first, payload[...]), to: &record)
        JournalCoding.append(number, to: &record)
        return record + payload
    }

    /// - Parameter end: The end of the transaction's record; nil if it has none.
    private func note(_ number: UInt64, _ statements: [JournalStatement], endsAt end: Int64?, isChange: Bool) {
        position = end ?? Self.capacity
        if end == nil { durability.noteLone() }
        if isChange { durability.noteChange() }
        sequence = number
        lacksLast = end == nil
        batch.append(statements)
    }

    /// Removes the last transaction, which did not fit into the journal and which the database refused.
    func removeLast() {
        batch.removeLast()
        sequence -= 1
        lacksLast = false
        (runCount, urgentEnd) = (min(runCount, batch.count), min(urgentEnd, batch.count))
    }

    /// Records that the database has run the next transaction.
    func noteRun() { runCount += 1 }

    /// Records that the batch's last transaction must run at once.
    func noteUrgent() { urgentEnd = batch.count }

    /// Whether a transaction that must run at once has not run, because the batch was rolled back.
    var lacksUrgent: Bool { runCount < urgentEnd }

    /// Records that the database transaction is new: no transaction of the batch has run in it.
    func noteOpening() { runCount = 0 }

    /// How many transactions of the batch have not run.
    var waitingCount: Int { batch.count - runCount }

    /// Replaces a transaction of the batch. The file keeps the original.
    func replace(_ place: Int, by statements: [JournalStatement]) { batch[place] = statements }

    /// Records that the database has committed a transaction that bypassed the journal.
    func skip(to number: UInt64, isChange: Bool) {
        sequence = number
        durability.noteLone()
        if isChange { durability.noteChange() }
    }

    /// Records a change of the database that is not a transaction.
    func noteLone() { durability.noteLone() }

    /// Records that the database has committed the batch.
    func noteCommit() {
        batch.removeAll(keepingCapacity: true)
        (runCount, urgentEnd) = (0, 0)
        lacksLast = false
        guard durability.letsJournalBeginAnew else { return }
        durability.noteNewBeginning(committed: sequence)
        position = 0
        texts.removeAll(keepingCapacity: true)
    }

    // MARK: Durability

    /// Returns what a sync that begins now must flush.
    func beginSync() -> IndexDurability.Sync {
        durability.begin(last: sequence, committed: sequence - UInt64(batch.count))
    }

    /// Records that the database's log, and the journal if needed, are on disk as they were when the sync began.
    func noteLog(of sync: IndexDurability.Sync) { durability.noteLog(of: sync) }

    /// Records that the journal is on disk as it was when the sync began, and that no more was needed.
    func noteEnd(of sync: IndexDurability.Sync) { durability.noteEnd(of: sync) }

    func sync() throws(Errno) { try file.syncData() }

    /// Starts writing the file to disk, for the flush that follows.
    func finishWriting() throws(Errno) { try file.finishWriting() }

    /// Erases the journal.
    func clear() throws(Errno) {
        try file.write([UInt8](repeating: 0, count: Int(Self.capacity)), at: 0)
        try file.sync()
    }

    /// Starts a new life, which separates new records from those of earlier openings. A marker record stands at the
    /// beginning until the first transaction replaces it: it distinguishes an empty journal from a missing one.
    func beginLife(_ number: UInt64) throws(Errno) {
        life = number
        first = sequence
        try file.write(record(sequence, JournalCoding.encode([], texts: &texts)), at: 0)
    }

    /// Reads the records that the database lacks.
    ///
    /// - Parameters:
    ///   - stored: The number of the last transaction that the database has.
    ///   - life: The opening recorded in the database. Only its records continue from there.
    func load(after stored: UInt64, of life: UInt64) throws(Errno) {
        sequence = stored
        self.life = life
        batch = []
        (runCount, urgentEnd) = (0, 0)
        var rest = try file.read(count: Int(Self.capacity), at: 0)[...]
        var seen = [String]()
        let first = firstNumber(rest)
        while let (number, payload) = record(&rest, first), number == sequence + 1 || batch.isEmpty {
            guard let statements = JournalCoding.decode(payload, texts: &seen) else { break }
            // The record is in the database already: the commit came last.
            if number <= stored { continue }
            guard number == sequence + 1 else { break }
            sequence = number
            batch.append(statements)
        }
    }

    /// Returns whether the file differs from what this life left, as far as that can be seen. Then acknowledged changes
    /// may be lost. A power loss has the same effect.
    ///
    /// - Parameters:
    ///   - stored: The number of the last transaction that the database has.
    ///   - life: The opening recorded in the database.
    ///   - looksThrough: Whether the journal may have changes that the database lacks.
    func isDamaged(after stored: UInt64, of life: UInt64, looksThrough: Bool) throws(Errno) -> Bool {
        guard wasWhole, try isBegun(by: life, after: stored) else { return true }
        guard looksThrough else { return false }
        return try damage(after: stored, of: life, wantsWhole: true) != nil
    }

    private func isBegun(by life: UInt64, after stored: UInt64) throws(Errno) -> Bool {
        self.life = life
        var bytes = try file.read(count: Int(Self.capacity), at: 0)[...]
        // If the first record has a later number, the database has lost commits before it.
        guard let (number, _) = record(&bytes, firstNumber(bytes)) else { return false }
        return number <= stored &+ 1
    }

    // MARK: For the doctor

    /// Erases records of earlier lives if the journal is about to restart.
    func forgetEarlierLives() throws(Errno) {
        guard batch.isEmpty, position == 0 else { return }
        try clear()
        try beginLife(life)
    }

    /// Returns whether the file has all records up to the end of the batch.
    func isWhole() throws(Errno) -> Bool {
        // A transaction that did not fit is committed at once.
        guard !batch.isEmpty, position < Self.capacity else { return true }
        var rest = try file.read(count: Int(Self.capacity), at: 0)[...]
        var last: UInt64 = 0
        while let (number, _) = record(&rest, first), number > last {
            last = number
            if number == sequence { return true }
        }
        return false
    }

    /// Returns the damage of a file that no process has open: an incomplete record that is the next one, or precedes
    /// valid ones. Nil if there is none.
    ///
    /// - Parameter wantsWhole: True to count only damage before a later valid record: the process may have died while
    ///   it wrote the last one.
    func damage(after stored: UInt64, of life: UInt64, wantsWhole: Bool = false) throws(Errno) -> String? {
        try load(after: stored, of: life)
        let bytes = try file.read(count: Int(Self.capacity), at: 0)
        var rest = bytes[...]
        let first = firstNumber(rest)
        var next = rest
        while let (number, _) = record(&next, first), number <= sequence { rest = next }
        let end = bytes.count - rest.count
        for start in Self.places(ofNumbersIn: (sequence + 1)...(sequence + UInt64(Self.maximumBatch)), bytes) {
            var again = bytes[start...]
            let isWhole = record(&again, first) != nil
            // The end may hold remains of a longer record from before, which look like any number.
            let isNext = start == 0 || start == end && isHeader(bytes[start...], of: sequence + 1)
            if isWhole || !wantsWhole && isNext {
                return "the record of change \(sequence + 1) is damaged; this change and all later ones are lost"
            }
        }
        return nil
    }

    private func isHeader(_ bytes: ArraySlice<UInt8>, of number: UInt64) -> Bool {
        var rest = bytes
        guard let length: UInt32 = JournalCoding.number(&rest), let _: UInt64 = JournalCoding.number(&rest),
            let found: UInt64 = JournalCoding.number(&rest)
        else { return false }
        return found == number && length > 0 && Int(length) <= rest.count
    }

    /// Returns the offsets where a record with one of the numbers may begin.
    private static func places(ofNumbersIn numbers: ClosedRange<UInt64>, _ bytes: [UInt8]) -> [Int] {
        bytes.withUnsafeBytes { raw in
            var found = [Int](), start = 0
            // A plain loop, because it examines a million offsets.
            while start + headerSize < raw.count {
                if numbers.contains(raw.loadUnaligned(fromByteOffset: start + headerSize - 8, as: UInt64.self)) {
                    found.append(start)
                }
                start += 1
            }
            return found
        }
    }

    private func firstNumber(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        var rest = bytes.dropFirst(Self.headerSize - 8)
        return JournalCoding.number(&rest) ?? 0
    }

    private func record(_ rest: inout ArraySlice<UInt8>, _ first: UInt64) -> (UInt64, ArraySlice<UInt8>)? {
        guard let length: UInt32 = JournalCoding.number(&rest), let sum: UInt64 = JournalCoding.number(&rest),
            let number: UInt64 = JournalCoding.number(&rest), length > 0, rest.count >= length
        else { return nil }
        let payload = rest.prefix(Int(length))
        rest = rest.dropFirst(Int(length))
        return checksum(number, first, payload) == sum ? (number, payload) : nil
    }

    private func checksum(_ number: UInt64, _ first: UInt64, _ bytes: ArraySlice<UInt8>) -> UInt64 {
        var sum = RecordChecksum(seed: number ^ life)
        sum.add(first)
        sum.add(bytes)
        return sum.value
    }
}
