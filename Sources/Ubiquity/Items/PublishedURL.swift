import FoundationEssentials
import UbiquityControl
import UbiquityCore

/// A URL of an item's published state. Anybody with the URL can download it.
///
/// - Source: `URLForPublishingUbiquitousItemAtURL:expirationDate:error:`, whose two results it has.
public struct PublishedURL: Sendable, Hashable {
    /// The URL. The cloud does not reveal it again.
    public let url: URL
    /// When the cloud ends it.
    public let expirationDate: Date
}

extension UbiquityFileManager {
    /// Publishes the present state of a file or a folder. Waits until it is uploaded.
    ///
    /// Later changes are not in the published state. It has names, sizes, times and contents, and nothing else. A
    /// folder is downloaded as a zip archive. The URL ends at its expiration date, when the item is deleted, and when
    /// it is revoked.
    ///
    /// - Parameter url: The URL of the item.
    /// - Parameter lifetime: How long the URL lasts; nil for the cloud's standard time of seven days.
    /// - Parameter password: A password that visitors must enter.
    /// - Throws: `UbiquitousFileError`: `.featureUnsupported` for an item that is not synced, and for a container in an
    ///   embedded cloud, which no other machine can reach.
    public func url(
        forPublishingUbiquitousItemAt url: URL, lifetime: Duration? = nil, password: String? = nil
    ) async throws -> PublishedURL {
        do {
            let place = try MountFinder.locate(url.path)
            let seconds = lifetime.map {
                Double($0.components.seconds) + Double($0.components.attoseconds) / 1e18
            }
            let request = PublishRequest(
                path: String(decoding: place.relativePath, as: UTF8.self), lifetime: seconds, password: password)
            let connection = try DaemonConnection(stateFolder: String(decoding: place.stateFolder, as: UTF8.self))
            let report: PublishReport
            do {
                report = try await connection.ask(ControlRoute.publish, request)
            } catch {
                await connection.close()
                throw error
            }
            guard report.isReachable, let published = URL(string: report.url) else {
                let revocation = UnpublishRequest(link: report.link.id)
                let _: Acknowledgement? = try? await connection.ask(ControlRoute.unpublish, revocation)
                await connection.close()
                throw UbiquityError(
                    .notSupported, "the embedded cloud serves this machine only", at: url.path,
                    remedy: "sign in to a server: 'ubiquity login'")
            }
            await connection.close()
            return PublishedURL(
                url: published, expirationDate: Date(timeIntervalSince1970: report.link.expiresAt))
        } catch {
            throw UbiquitousFileError.from(error, isWriting: false)
        }
    }
}
