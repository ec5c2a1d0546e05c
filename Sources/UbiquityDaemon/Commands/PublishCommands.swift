import UbiquityCloudClient
import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS
import UbiquityWire

/// Commands on links: `publish`, `publish list`, `publish revoke`.
struct PublishCommands: MountCommand {
    let parts: MountParts

    /// How long the upload of the item is waited for.
    private static let uploadLimit = Duration.seconds(60)

    func publish(_ request: PublishRequest) async throws -> PublishReport {
        try requireWritable()
        let row = try await pool.run { [self] in try parts.tree.row(at: request.path) }
        try await waitForUpload(of: row, at: request.path)
        // The version that this device knows. A later one of another device is not published unseen.
        let version = try await pool.run { [self] in
            try index.read { try $0.remote(id: row.id) }?.content?.version
        }
        let wanted = LinkRequest(
            item: row.id.description, version: row.kind == .file ? version?.description : nil,
            lifetime: request.lifetime, password: request.password)
        let (accounts, container) = try cloud()
        let new: NewLink
        do { new = try await accounts.ask { try await $0.createLink(wanted, in: container, of: nil) } } catch
            let error as UbiquityError
        {
            throw UbiquityError(error.code, error.message, at: request.path, remedy: error.remedy)
        }
        let web = accounts.webAddress
        return PublishReport(
            url: (web ?? "") + new.path, isReachable: web != nil,
            link: report(of: new.link, at: request.path))
    }

    private func waitForUpload(of row: ItemRow, at path: String) async throws {
        guard row.key != .root else { return }
        guard !row.isExcluded else {
            throw UbiquityError(.notSupported, "the item is not synced, so the cloud cannot publish it", at: path)
        }
        try await pool.run { [parts] in parts.fileSystem.flush() }
        let check = WaitCheck(parts: parts, wanted: WaitRequest(paths: [path], uploaded: true), tops: [row.key])
        let isUploaded = try await engine.wait(atMost: Self.uploadLimit) {
            try await pool.run {
                try check.endRests()
                return try check.holds(graceIsOver: false)
            }
        }
        guard !isUploaded else { return }
        throw UbiquityError(
            .notUploadedYet, "the item is not uploaded yet, and only uploaded items can be published", at: path,
            remedy: "'ubiquity status \(path)' shows the reason; publish it again later")
    }

    func list(_ request: PublishedRequest) async throws -> PublishedReport {
        var item: ItemID?
        if let path = request.path, !path.isEmpty {
            item = try await pool.run { [self] in try parts.tree.row(at: path).id }
        }
        let (accounts, container) = try cloud()
        let links = try await accounts.ask { [item] in try await $0.links(in: container, to: item, of: nil) }
        return try await pool.run { [self] in
            PublishedReport(links: try links.map { report(of: $0, at: try path(of: $0)) })
        }
    }

    func revoke(_ request: UnpublishRequest) async throws -> Acknowledgement {
        try requireWritable()
        let (accounts, container) = try cloud()
        let link = LinkPath.secret(in: request.link) ?? request.link
        try await accounts.ask { try await $0.revokeLink(link, in: container, of: nil) }
        return Acknowledgement()
    }

    private func cloud() throws -> (accounts: Accounts, container: ContainerID) {
        try Accounts.ofMount(stateFolder: parts.folder.path)
    }

    private func path(of link: LinkEntry) throws -> String? {
        guard let id = ItemID(hex: link.item), let row = try index.read({ try $0.row(id: id) }), !row.isDeleted else {
            return nil
        }
        return try parts.tree.path(of: row.key)
    }

    private func report(of link: LinkEntry, at path: String?) -> LinkReport {
        LinkReport(
            id: link.id, path: path, name: link.name, isFolder: link.isFolder, version: link.version, size: link.size,
            files: link.files, createdAt: link.created, expiresAt: link.expires, hasPassword: link.hasPassword,
            downloads: link.downloads)
    }
}
