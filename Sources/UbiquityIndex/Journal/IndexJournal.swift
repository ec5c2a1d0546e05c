internal import UbiquityCore
internal import UbiquitySystem

/// What local transactions changed since the database's last commit: one short write for each, in `index.journal`.
///
/// A commit of SQLite writes every page it touched, some twenty for a new file. So local transactions gather in one
/// open transaction of the database, the batch, and each is acknowledged when its statements stand in the journal,
/// from which they are run again after the process died (`ItemIndex+Batch`). The database knows, as `meta.journal`, the
/// number of the last transaction that it has; the journal begins anew after a commit, and counts on, unless a sync has
/// promised what would be written over (`IndexDurability`): then it goes on behind that.
///
/// A record: length of the payload (4 bytes), checksum (8), number (8), payload (`JournalCoding`). Reading ends where a
/// record is not whole or does not have the next number: what an earlier batch left behind has smaller numbers. If the
/// first one that the database lacks is not its next, commits before it were lost with the power, and what followed
/// them counts for nothing: it was not synced either. The numbers that were lost are given again, so each opening draws
/// a number of its own, its life (`meta.life`), that goes into the checksums: what an earlier life left behind is never
/// a record. So does the number of the record that the file begins with: of what was written before the journal last
/// began anew none is taken for one that follows, whichever of the file's pages reached the disk.
///
/// Only used by whoever has the turn with it (`ItemIndex.withJournal`), which makes it safe to share; but for `sync`.
final class IndexJournal: @unchecked Sendable {
    /// Length of its part of the file, which has its room from the start: what has been accepted so far fits on a full
    /// disk. What lies behind it is another's, who has it brought to the disk with the journal.
    static let capacity: Int64 = 1 << 20
    /// Transactions gathered before they are committed: what a restart runs again, and what a failed one undoes.
    static let maximumBatch = 512
    private static let headerSize = 20

    private let file: FileDescriptor
    /// The device on which the sync of another file brings to the disk what `finishWriting` has sent there; nil if that
    /// takes a sync of this one.
    private(set) var flushDevice: UInt64?
    private var position: Int64 = 0
    private var texts: [String: UInt16] = [:]
    /// Which opening of the index wrote what stands here; 0 for files that know of none.
    private var life: UInt64 = 0
    /// The number of the record that the file begins with.
    private var first: UInt64 = 0
    /// The number of the last transaction.
    private(set) var sequence: UInt64 = 0
    /// The transactions that the database has not committed.
    private(set) var batch: [[JournalStatement]] = []
    /// How many of these the database has run, in the transaction that is open.
    private(set) var runCount = 0
    /// How many of these there are up to the last that was to be run at once; 0 if none was.
    private var urgentEnd = 0
    /// Whether the file lacks the last one of these, which had no room.
    private(set) var lacksLast = false
    private(set) var durability = IndexDurability()

    /// Whether the file was as long when it was opened as the journal is.
    private let wasWhole: Bool

    init(path: String) throws(Errno) {
        file = try FileDescriptor.openFile(path, [.readWrite, .create])
        wasWhole = try file.status().size >= Self.capacity
        try takeRoom()
    }

    /// Only to be looked at.
    init(reading path: String) throws(Errno) {
        file = try FileDescriptor.openFile(path, .readOnly)
        wasWhole = try file.status().size >= Self.capacity
    }

    private func takeRoom() throws(Errno) {
        if try file.status().size < Self.capacity { try file.allocate([], 0..<Self.capacity) }
        flushDevice = try file.sharedFlushes()
        // Without it each sync is one of its own.
        if flushDevice != nil, (try? fillRoom()) == nil { flushDevice = nil }
    }

    /// Room that was never written is noted as such by the file system, and the first write to it changes that note,
    /// which only a sync of this file brings to the disk. Which room that is cannot be asked (SEEK_HOLE takes a page
    /// that was read for data), so all of it is written with what it has.
    private func fillRoom() throws(Errno) {
        var bytes = try file.read(count: Int(Self.capacity), at: 0)
        bytes += [UInt8](repeating: 0, count: Int(Self.capacity) - bytes.count)
        try file.write(bytes, at: 0)
        try file.syncData()
    }

    var isLong: Bool { batch.count >= Self.maximumBatch }
    /// Whether it should not go on much longer where it is.
    var isTight: Bool { position > Self.capacity / 2 }

    /// Writes a transaction down. It survives the process when this returns.
    /// - Parameter isChange: whether the next `fsync` must bring it to the disk.
    /// - Returns: false if there is no room, or it is too long: then only a commit makes it survive.
    func append(_ statements: [JournalStatement], isChange: Bool = true) throws(Errno) -> Bool {
        let known = texts
        let number = sequence + 1
        if position == 0 { first = number }
        // Of a whole subtree that comes into sync, or is pinned, each row is a statement.
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

    /// - Parameter end: of the transaction's record; nil if it has none.
    private func note(_ number: UInt64, _ statements: [JournalStatement], endsAt end: Int64?, isChange: Bool) {
        position = end ?? Self.capacity
        if end == nil { durability.noteLone() }
        if isChange { durability.noteChange() }
        sequence = number
        lacksLast = end == nil
        batch.append(statements)
    }

    /// Takes the last transaction back, which the journal had no room for and the database would not take.
    func removeLast() {
        batch.removeLast()
        sequence -= 1
        lacksLast = false
        (runCount, urgentEnd) = (min(runCount, batch.count), min(urgentEnd, batch.count))
    }

    /// The database has run the next one.
    func noteRun() { runCount += 1 }

    /// One of the batch is to be run at once.
    func noteUrgent() { urgentEnd = batch.count }

    /// Whether the database has still to run one that was to be run at once: the batch was undone.
    var lacksUrgent: Bool { runCount < urgentEnd }

    /// The database's transaction is a new one: it has run none of them.
    func noteOpening() { runCount = 0 }

    /// How many of the batch the database has still to run.
    var waitingCount: Int { batch.count - runCount }

    /// Puts another in the place of one of the batch; the file keeps that.
    func replace(_ place: Int, by statements: [JournalStatement]) { batch[place] = statements }

    /// The database has committed a transaction that does not stand here.
    func skip(to number: UInt64, isChange: Bool) {
        sequence = number
        durability.noteLone()
        if isChange { durability.noteChange() }
    }

    /// The database has got something that is no transaction.
    func noteLone() { durability.noteLone() }

    /// The database has committed the batch.
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

    /// What a sync that begins now must bring to the disk.
    func beginSync() -> IndexDurability.Sync {
        durability.begin(last: sequence, committed: sequence - UInt64(batch.count))
    }

    /// The database's log is on the disk as it was when the sync began, and the journal unless the database had all.
    func noteLog(of sync: IndexDurability.Sync) { durability.noteLog(of: sync) }

    /// The journal is on the disk as it was when the sync began, which needed no more.
    func noteEnd(of sync: IndexDurability.Sync) { durability.noteEnd(of: sync) }

    func sync() throws(Errno) { try file.syncData() }

    /// Sends it to the disk, for the flush that follows.
    func finishWriting() throws(Errno) { try file.finishWriting() }

    /// Nothing stands there any more.
    func clear() throws(Errno) {
        try file.write([UInt8](repeating: 0, count: Int(Self.capacity)), at: 0)
        try file.sync()
    }

    /// What is written from now on belongs to another opening than what stands here. A record that says so stands at
    /// the beginning until the first transaction takes its place: so an empty journal is told from one that is gone.
    func beginLife(_ number: UInt64) throws(Errno) {
        life = number
        first = sequence
        try file.write(record(sequence, JournalCoding.encode([], texts: &texts)), at: 0)
    }

    /// Reads what the database lacks.
    /// - Parameters:
    ///   - stored: the number of the last transaction it has.
    ///   - life: the opening that it knows of, which alone can have gone on from there.
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
            // An older one is in the database: the commit was the last thing that happened.
            if number <= stored { continue }
            guard number == sequence + 1 else { break }
            sequence = number
            batch.append(statements)
        }
    }

    /// Whether the file is not what this life has left, as far as that shows: then changes may be lost that were
    /// acknowledged. A loss of power leaves it so too.
    /// - Parameters:
    ///   - stored: the number of the last transaction that the database has.
    ///   - life: the opening that it knows of.
    ///   - looksThrough: Whether it may have changes that the database lacks.
    func isDamaged(after stored: UInt64, of life: UInt64, looksThrough: Bool) throws(Errno) -> Bool {
        guard wasWhole, try isBegun(by: life, after: stored) else { return true }
        guard looksThrough else { return false }
        return try damage(after: stored, of: life, wantsWhole: true) != nil
    }

    private func isBegun(by life: UInt64, after stored: UInt64) throws(Errno) -> Bool {
        self.life = life
        var bytes = try file.read(count: Int(Self.capacity), at: 0)[...]
        // One that begins later follows commits that the database has lost.
        guard let (number, _) = record(&bytes, firstNumber(bytes)) else { return false }
        return number <= stored &+ 1
    }

    // MARK: For the doctor

    /// Takes away what is in the file, if it begins anew with what comes next.
    func forgetEarlierLives() throws(Errno) {
        guard batch.isEmpty, position == 0 else { return }
        try clear()
        try beginLife(life)
    }

    /// Whether the file has what is in the batch, and all before it.
    func isWhole() throws(Errno) -> Bool {
        // One that had no room is committed at once.
        guard !batch.isEmpty, position < Self.capacity else { return true }
        var rest = try file.read(count: Int(Self.capacity), at: 0)[...]
        var last: UInt64 = 0
        while let (number, _) = record(&rest, first), number > last {
            last = number
            if number == sequence { return true }
        }
        return false
    }

    /// What is wrong with a file that nobody has open: a record that is not whole, though it or later ones are those
    /// that come next; nil if nothing is.
    /// - Parameter wantsWhole: Only a later record that is whole counts: the process may have ended as it wrote the
    ///   last.
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
            // At the end there may be what is left of a longer record from before, which looks like any number.
            let isNext = start == 0 || start == end && isHeader(bytes[start...], of: sequence + 1)
            if isWhole || !wantsWhole && isNext {
                return "the record of change \(sequence + 1) is damaged; it and what followed it are lost"
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

    /// Where a record with one of the numbers may begin.
    private static func places(ofNumbersIn numbers: ClosedRange<UInt64>, _ bytes: [UInt8]) -> [Int] {
        bytes.withUnsafeBytes { raw in
            var found = [Int](), start = 0
            // By hand: it goes through a million places.
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
