import UbiquityCore

/// The version of this program.
package enum ProgramVersion {
    package static let text = FormatFeatures.program
}
