import UbiquityCore

/// The files of the log at one moment.
struct LogListing {
    struct Segment {
        var schema: Int
        var size: Int
        var name: String
    }

    /// By device and number.
    private(set) var segments: [DeviceID: [Int: Segment]] = [:]
    private(set) var devices: Set<DeviceID> = []
    private var manifests: Set<BaseID> = []
    private var parts: [BaseID: Set<Int>] = [:]
    /// The accepted bases, oldest first.
    private(set) var bases: [BaseManifest] = []
    /// Bases that no device uses.
    private(set) var refused: [BaseID] = []

    init(_ store: any LogStore) throws {
        for file in try store.files() {
            switch LogName(file.name) {
            case .segment(let schema, let device, let number):
                segments[device, default: [:]][number] = Segment(schema: schema, size: file.size, name: file.name)
            case .device(let device): devices.insert(device)
            case .manifest(let base): manifests.insert(base)
            case .part(let base, let number): parts[base, default: []].insert(number)
            case nil: continue
            }
        }
        var found: [BaseManifest] = []
        for base in manifests.sorted() {
            guard let bytes = try store.read(LogName.manifest(base).path, from: 0) else { continue }
            // A manifest that is damaged, or of an unknown format, is as good as none.
            if let manifest = try? BaseManifest(id: base, bytes), isComplete(manifest) { found.append(manifest) }
        }
        bases = BaseManifest.accepted(found)
        refused = found.map(\.id).filter { id in !bases.contains { $0.id == id } }
    }

    private func isComplete(_ base: BaseManifest) -> Bool {
        let present = parts[base.id] ?? []
        return (0..<base.parts).allSatisfy(present.contains)
    }

    /// The names of all files of a base.
    func names(of base: BaseID) -> [String] {
        // Without its manifest a base does not exist, so the manifest goes first.
        [LogName.manifest(base).path] + (parts[base] ?? []).sorted().map { LogName.part(base, $0).path }
    }

    /// All bases that have files.
    var allBases: [BaseID] { manifests.union(parts.keys).sorted() }
}
