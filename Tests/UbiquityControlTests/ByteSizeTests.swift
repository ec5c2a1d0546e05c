import Testing
import UbiquityControl
import UbiquityCore

@Suite struct ByteSizeTests {
    @Test(arguments: [
        ("0", 0), ("512", 512), ("512B", 512), ("10G", 10 << 30), ("10g", 10 << 30), ("512MiB", 512 << 20),
        ("512 MiB", 512 << 20), ("64MB", 64_000_000), ("1.5K", 1536), ("1TB", 1_000_000_000_000), ("2P", 2 << 50),
    ] as [(String, Int64)])
    func reads(_ text: String, _ bytes: Int64) throws {
        #expect(try ByteSize.parse(text) == bytes)
    }

    @Test(arguments: ["", "G", "-1", "10X", "10GiBB", "1e3", "1..5G", "9000000P", "١G", "10 G G", "0x10"])
    func refuses(_ text: String) {
        #expect(throws: UbiquityError.self) { try ByteSize.parse(text) }
    }

    @Test(arguments: [
        (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (10 << 10, "10 KiB"),
        (1_048_575, "1.0 MiB"), (512 << 20, "512 MiB"), (Int64.max, "8.0 EiB"),
    ] as [(Int64, String)])
    func writes(_ bytes: Int64, _ text: String) {
        #expect(ByteSize.text(bytes) == text)
    }
}
