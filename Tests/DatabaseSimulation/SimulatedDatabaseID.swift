package import UbiquityDatabase

/// A device of the simulation.
package struct SimulatedDatabaseID: Hashable, Sendable {
    package var device: DeviceID

    package init(_ device: DeviceID) { self.device = device }
}
