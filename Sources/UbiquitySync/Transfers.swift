internal import UbiquityCore
internal import UbiquitySystem

/// The progress of a transfer.
package struct TransferProgress: Sendable, Hashable {
    package var doneBytes: Int64
    package var totalBytes: Int64

    /// From 0 to 100. An empty content counts as done.
    package var percent: Double { totalBytes == 0 ? 100 : Double(doneBytes) * 100 / Double(totalBytes) }
}

/// The uploads in progress, for the status. Downloads report their own progress.
final class Transfers: Sendable {
    private let uploads = Lock<[ItemKey: TransferProgress]>([:])

    func begin(_ key: ItemKey, total: Int64) {
        uploads.withLock { $0[key] = TransferProgress(doneBytes: 0, totalBytes: total) }
    }

    func advance(_ key: ItemKey, by bytes: Int64) {
        uploads.withLock {
            guard var progress = $0[key] else { return }
            progress.doneBytes = min(progress.doneBytes + bytes, progress.totalBytes)
            $0[key] = progress
        }
    }

    func end(_ key: ItemKey) { uploads.withLock { _ = $0.removeValue(forKey: key) } }

    func upload(_ key: ItemKey) -> TransferProgress? { uploads.withLock { $0[key] } }

    var uploading: [ItemKey: TransferProgress] { uploads.withLock { $0 } }
}
