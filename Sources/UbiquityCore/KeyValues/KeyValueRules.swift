/// Rules of the key-value store that a simulator breaks on purpose. All are true elsewhere.
package struct KeyValueRules: Hashable, Sendable {
    /// Whether the cloud corrects the times of devices whose clocks are wrong.
    package var correctsClocks = true
    /// Whether the cloud refuses sets that exceed a limit only together with those of other devices.
    package var limitsMergedStores = true
    /// Whether a set that is made while an earlier one is being sent stays pending.
    package var keepsNewerSets = true
    /// Whether a switch to another account keeps the accounts apart.
    package var separatesAccounts = true

    package init() {}
}
