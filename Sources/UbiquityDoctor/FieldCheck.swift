internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Completes items and records whose fields in the index cannot be read.
struct FieldCheck: Check {
    let context: CheckContext

    /// Call it after the records are compared: an item's missing fields are taken from its record.
    func run(_ damaged: DamagedFields) throws -> [Finding] {
        let items = try damaged.items.prefix(Diagnosis.maximumFindings).compactMap { key -> Finding? in
            guard let row = try index.row(key: key) else { return nil }
            let isKnown = try index.read { try $0.remote(id: row.id) } != nil
            if options.repairs { try index.write(.startup) { try $0.rewriteAttributes(of: row) } }
            let how = isKnown ? "taken from the cloud" : "the cloud does not have them; the item has none now"
            return Finding(
                .itemDamaged, try subject(row), "its attributes in the index cannot be read",
                options.repairs ? .repaired(how) : .found)
        }
        let left = options.repairs ? try Set(index.read { try $0.damagedFields() }.records) : []
        let records = try damaged.records.prefix(Diagnosis.maximumFindings).map { id -> Finding in
            let name = try index.read { try $0.remote(id: id) }.map { "\($0.name)" } ?? "\(id)"
            let outcome: Finding.Outcome = left.contains(id)
                ? .unrepaired("the cloud did not send it; run doctor again when the cloud is reachable")
                : .repaired("taken from the cloud")
            return Finding(
                .recordDamaged, name, "the index's record of item \(id) cannot be read",
                options.repairs ? outcome : .found)
        }
        return items + records
    }
}
