import UbiquityControl

/// Whether an item's content is on this device.
///
/// - Source: `URLUbiquitousItemDownloadingStatus`.
public enum UbiquitousItemDownloadingStatus: String, Hashable, Sendable, CaseIterable {
    /// A placeholder: no content, or only a part of it, is on this device.
    case notDownloaded = "NSURLUbiquitousItemDownloadingStatusNotDownloaded"
    /// Some content is here, but a newer one is known.
    case downloaded = "NSURLUbiquitousItemDownloadingStatusDownloaded"
    /// The newest known content is here.
    case current = "NSURLUbiquitousItemDownloadingStatusCurrent"

    init(_ status: ItemReport.DownloadingStatus) {
        switch status {
        case .notDownloaded: self = .notDownloaded
        case .downloaded: self = .downloaded
        case .current: self = .current
        }
    }

    init?(attribute text: String) {
        guard let status = ItemReport.DownloadingStatus(rawValue: text) else { return nil }
        self.init(status)
    }
}
