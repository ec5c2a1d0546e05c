/// Kinds of worlds, with the frequencies of their events. A seed's profile is drawn from the seed.
package enum Profile: String, Sendable, CaseIterable {
    /// A good network and no faults: only the order of events is random.
    case together
    /// Every kind of fault.
    case storm
    /// Devices that work long without a network, and then sync.
    case reunion
    /// Disks that lose unsynced data, or are full.
    case disks
    /// The real cloud, which dies at any of its writes and loses unsynced data.
    case cloud
    /// Packages, ignored names, and the usual ways of editors to save.
    case documents
    /// All but one device are away for long, and the cloud forgets deletions meanwhile.
    case outage
    /// Very many files are removed at once: the deletion is on hold until a user confirms it.
    case masses
    /// One device renames, exchanges and removes folders during its own commits.
    case folders
    /// The cloud lies to the devices, and then is honest again.
    case hostile
    /// One device at a time changes something, and all must show exactly that: compared with a model without devices.
    case turns
    /// Two devices make one concurrent change each: compared with the table of conflicts.
    case pairs

    static func of(_ seed: UInt64) -> Profile {
        let order: [Profile] = [
            .storm, .disks, .reunion, .storm, .pairs, .disks, .cloud, .documents, .turns, .pairs, .storm, .disks, .outage,
            .folders, .documents, .hostile, .together, .cloud, .masses, .pairs,
        ]
        return order[Int(seed % UInt64(order.count))]
    }

    /// The largest number of devices.
    var devices: Int { self == .storm || self == .together ? 5 : 3 }
    var rounds: Int { self == .disks ? 3 : 2 }
    var hasSkew: Bool { self != .turns }
    /// The number of devices with a permanent network; the others are away at first.
    var devicesThatStay: Int {
        switch self {
        case .reunion: 0
        case .outage: 1
        default: .max
        }
    }

    var programSteps: Int {
        switch self {
        case .together, .storm: 25
        case .documents: 20
        case .reunion, .outage, .cloud: 12
        case .disks: 15
        case .turns, .pairs, .masses, .folders, .hostile: 0
        }
    }

    var mishapSteps: Int {
        switch self {
        case .storm: 7
        case .reunion, .outage: 2
        case .disks, .documents: 4
        case .cloud: 6
        case .together, .turns, .pairs, .masses, .folders, .hostile: 0
        }
    }

    /// The longest pause between two steps of a device.
    var pause: Duration {
        switch self {
        case .together: .milliseconds(300)
        case .storm, .cloud: .seconds(4)
        case .documents: .seconds(2)
        case .outage: .seconds(60)
        case .reunion: .seconds(15)
        case .disks: .seconds(3)
        case .turns, .pairs, .masses, .folders, .hostile: .seconds(1)
        }
    }

    var programs: [(Action, Int)] {
        [
            (.createFile, 18), (.makeFolder, 8), (.makeLink, 3), (.makeHardLink, 5), (.edit, 9),
            (.patch, 5),
            (.rewrite, 2), (.saveOver, 7), (.overwrite, 3), (.editAndDie, self == .storm || self == .disks ? 1 : 0),
            (.rename, 14), (.exchange, 2), (.remove, 10), (.decide, 4),
            (.restoreEarlier, 3), (.undelete, 4), (.setMode, 4), (.setXattr, 5), (.touch, 4),
            (.read, 6), (.evict, 5), (.pin, 2), (.syncFolder, self == .disks ? 4 : 1),
            (.backupSave, self == .documents ? 12 : 3), (.hiddenSave, self == .documents ? 12 : 3),
            (.savePackage, self == .documents ? 30 : 2), (.workInPackages, self == .documents ? 40 : 0),
            (.ignore, self == .documents ? 10 : 2),
            (.evictHard, self == .documents ? 8 : 2),
        ]
    }

    var mishaps: [(Action, Int)] {
        switch self {
        case .together, .turns, .pairs, .masses, .folders, .hostile: []
        case .reunion: [(.away, 3), (.fillAccount, 1), (.freeAccount, 1)]
        case .outage: [(.forgetDeletions, 3), (.kill, 1), (.start, 1)]
        case .cloud:
            [
                (.crashCloud, 6), (.badNetwork, 2), (.goodNetwork, 2), (.kill, 1), (.start, 2), (.away, 1), (.back, 1),
            ]
        case .documents: [(.kill, 2), (.killAtWrite, 2), (.start, 5), (.badNetwork, 2), (.goodNetwork, 1), (.back, 1)]
        case .storm:
            [
                (.goodNetwork, 4), (.badNetwork, 6), (.away, 2), (.back, 2), (.pause, 1), (.resume, 1), (.kill, 2),
                (.killAtWrite, 2), (.start, 6), (.forgetDeletions, 1), (.losePowerAtWrite, 1), (.restartCloud, 1),
                (.fillAccount, 1), (.freeAccount, 2), (.forgetChunks, 1),
            ]
        case .disks:
            [
                (.losePower, 3), (.losePowerAtWrite, 5), (.kill, 1), (.killAtWrite, 2), (.start, 8), (.fillDisk, 1),
                (.freeDisk, 2), (.badNetwork, 1), (.away, 1), (.back, 1),
            ]
        }
    }
}
