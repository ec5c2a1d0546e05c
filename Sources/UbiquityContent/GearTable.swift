/// The 256 random numbers of the rolling hash. They determine the cuts of every content, on every device and for ever:
/// with another table no chunk would match the stored ones.
///
/// They are the first 256 outputs of SplitMix64 (Steele, Lea, Flood 2014) started with `seed`.
struct GearTable: @unchecked Sendable {
    /// "ubiquity" in ASCII.
    static let seed: UInt64 = 0x7562_6971_7569_7479

    /// Never freed: it lives as long as the process.
    let numbers: UnsafePointer<UInt64>

    static let shared = GearTable()

    private init() {
        let memory = UnsafeMutablePointer<UInt64>.allocate(capacity: 256)
        var state = Self.seed
        for index in 0..<256 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var mixed = state
            mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
            memory[index] = mixed ^ (mixed >> 31)
        }
        numbers = UnsafePointer(memory)
    }
}
