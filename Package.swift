// swift-tools-version: 6.2
import PackageDescription

// Modules and the direction of their imports: dependencies point down only (L5 knows L4 … L1), modules of one
// layer do not know each other. `scripts/check` holds the code against this list.

/// Every target of ours is compiled in Swift 6 mode, and a warning is an error.
let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")
let grdbSQLite = Target.Dependency.product(name: "GRDBSQLite", package: "GRDB.swift")
let hummingbird = Target.Dependency.product(name: "Hummingbird", package: "hummingbird")
let hummingbirdCore = Target.Dependency.product(name: "HummingbirdCore", package: "hummingbird")
let hummingbirdTLS = Target.Dependency.product(name: "HummingbirdTLS", package: "hummingbird")
let asyncHTTPClient = Target.Dependency.product(name: "AsyncHTTPClient", package: "async-http-client")
let protobuf = Target.Dependency.product(name: "SwiftProtobuf", package: "swift-protobuf")
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let nioCore = Target.Dependency.product(name: "NIOCore", package: "swift-nio")
let nioPosix = Target.Dependency.product(name: "NIOPosix", package: "swift-nio")
let nioSSL = Target.Dependency.product(name: "NIOSSL", package: "swift-nio-ssl")
let nioEmbedded = Target.Dependency.product(name: "NIOEmbedded", package: "swift-nio")
let nioHTTP1 = Target.Dependency.product(name: "NIOHTTP1", package: "swift-nio")

func module(_ name: String, _ dependencies: [Target.Dependency] = [], exclude: [String] = []) -> Target {
    .target(name: name, dependencies: dependencies, exclude: exclude, swiftSettings: strict)
}

func tests(_ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
    .testTarget(name: name, dependencies: dependencies, exclude: exclude, swiftSettings: strict)
}

let package = Package(
    name: "ubiquity",
    products: [
        .executable(name: "ubiquity", targets: ["UbiquityCLI"]),
        .library(name: "Ubiquity", targets: ["Ubiquity"]),
        .library(name: "UbiquityDatabase", targets: ["UbiquityDatabase"]),
    ],
    dependencies: [
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/apple/swift-protobuf", from: "1.39.0"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl.git", from: "2.37.0"),
    ],
    targets: [
        // L0
        .systemLibrary(name: "CFUSE", pkgConfig: "fuse3", providers: [.apt(["libfuse3-dev"])]),
        .target(name: "CUbiquityShims"),
        .target(name: "CUbiquitySession", linkerSettings: [.linkedLibrary("sqlite3")]),
        // L1
        module("UbiquityCore"),
        module("UbiquitySystem", ["UbiquityCore", "CUbiquityShims"]),
        // L2
        module("UbiquityIndex", ["UbiquityCore", "UbiquitySystem", grdb, grdbSQLite]),
        module("UbiquityContent", ["UbiquityCore", "UbiquitySystem", crypto]),
        module("UbiquityCoordination", ["UbiquityCore", "UbiquitySystem"]),
        module("UbiquityWire", ["UbiquityCore", protobuf, crypto], exclude: ["ubiquity.proto"]),
        module("UbiquityControl", ["UbiquityCore"], exclude: ["openapi.json"]),
        // L3
        module("UbiquitySync", [
            "UbiquityCore", "UbiquitySystem", "UbiquityIndex", "UbiquityContent", "UbiquityWire", logging,
        ]),
        module("UbiquityVFS", [
            "UbiquityCore", "UbiquitySystem", "UbiquityIndex", "UbiquityContent", "UbiquityCoordination", logging,
        ]),
        module("UbiquityCloudStore", ["UbiquityCore", "UbiquitySystem", "UbiquityWire", grdb, crypto, logging]),
        // L4
        module("UbiquityDoctor", [
            "UbiquityCore", "UbiquitySystem", "UbiquityIndex", "UbiquityContent", "UbiquityWire", "UbiquitySync",
            logging,
        ]),
        module("UbiquityFUSE", ["UbiquityCore", "UbiquitySystem", "UbiquityVFS", "CFUSE", "CUbiquityShims", logging]),
        module("UbiquityCloudClient", [
            "UbiquityCore", "UbiquitySystem", "UbiquityWire", asyncHTTPClient, nioCore, nioPosix, nioHTTP1, nioSSL,
        ]),
        module("UbiquityCloudServer", [
            "UbiquityCore", "UbiquitySystem", "UbiquityContent", "UbiquityWire", "UbiquityCloudStore", hummingbird,
            hummingbirdCore, hummingbirdTLS, nioCore, nioPosix, nioHTTP1, nioSSL, logging,
        ]),
        module("Ubiquity", ["UbiquityCore", "UbiquitySystem", "UbiquityControl", asyncHTTPClient, nioCore, nioHTTP1]),
        // L5
        module("UbiquityDatabase", [
            "Ubiquity", "UbiquityControl", "UbiquityCore", "UbiquitySystem", "CUbiquitySession", grdb,
        ]),
        module("UbiquityDaemon", [
            "UbiquityCore", "UbiquitySystem", "UbiquityIndex", "UbiquityContent", "UbiquityCoordination",
            "UbiquityWire", "UbiquityControl", "UbiquitySync", "UbiquityDoctor", "UbiquityVFS", "UbiquityFUSE",
            "UbiquityCloudClient", "UbiquityCloudStore", "UbiquityCloudServer", hummingbird, nioCore, nioPosix, logging,
        ]),
        .executableTarget(
            name: "UbiquityCLI",
            dependencies: [
                "UbiquityCore", "UbiquitySystem", "UbiquityWire", "UbiquityControl", "UbiquityCloudClient",
                "UbiquityDaemon", "Ubiquity", argumentParser, logging,
            ],
            swiftSettings: strict),
        // Tests
        .target(name: "CSimulatedDisk", path: "Tests/CSimulatedDisk"),
        .target(
            name: "UbiquityTestSupport",
            dependencies: [
                "UbiquityCore", "UbiquitySystem", "UbiquityIndex", "UbiquityContent", "UbiquityWire",
                "UbiquityCloudStore", "UbiquitySync", "UbiquityVFS", "UbiquityCoordination", "CSimulatedDisk", logging,
            ],
            path: "Tests/UbiquityTestSupport",
            swiftSettings: strict),
        .executableTarget(
            name: "simulate", dependencies: ["UbiquityTestSupport", argumentParser], path: "Tests/Simulate",
            swiftSettings: strict),
        .executableTarget(
            name: "kill-test", dependencies: ["UbiquityCore", "UbiquitySystem", argumentParser], path: "Tests/KillTest",
            swiftSettings: strict),
        .target(
            name: "DatabaseSimulation", dependencies: ["UbiquityDatabase", "UbiquityCore", grdb],
            path: "Tests/DatabaseSimulation", swiftSettings: strict),
        .executableTarget(
            name: "simulate-databases", dependencies: ["DatabaseSimulation", argumentParser],
            path: "Tests/SimulateDatabases", swiftSettings: strict),
        .executableTarget(
            name: "database-benchmark", dependencies: ["UbiquityDatabase", grdb], path: "Tests/DatabaseBenchmark",
            swiftSettings: strict),
        .executableTarget(
            name: "shoebox", dependencies: ["UbiquityDatabase", "Ubiquity", grdb], path: "Tests/Shoebox",
            swiftSettings: strict),
        .target(name: "CFuzz", path: "Tests/CFuzz"),
        .target(
            name: "UbiquityFuzzing",
            dependencies: [
                "UbiquityCore", "UbiquitySystem", "UbiquityIndex", "UbiquityWire", "UbiquityControl", "UbiquitySync",
                "UbiquityVFS", "UbiquityCloudStore", "UbiquityFUSE", "UbiquityCloudClient", "UbiquityDaemon",
                "UbiquityTestSupport", "CFuzz",
            ],
            path: "Tests/UbiquityFuzzing",
            swiftSettings: strict),
        .executableTarget(
            name: "fuzz", dependencies: ["UbiquityFuzzing", "CFuzz", argumentParser], path: "Tests/Fuzz",
            swiftSettings: strict),
        .executableTarget(name: "block-recorder", dependencies: ["CFUSE"], path: "Tests/BlockRecorder"),
        .executableTarget(name: "notes", dependencies: ["Ubiquity"], path: "Tests/Notes", swiftSettings: strict),
        .executableTarget(
            name: "library-probe", dependencies: ["Ubiquity"], path: "Tests/LibraryProbe", swiftSettings: strict),
        tests("UbiquityCoreTests", ["UbiquityCore"]),
        tests("UbiquitySystemTests", ["UbiquitySystem", "UbiquityCore", "UbiquityTestSupport"]),
        tests("UbiquityIndexTests", ["UbiquityIndex", "UbiquityCore", "UbiquitySystem", "UbiquityTestSupport", grdb]),
        tests("UbiquityContentTests", [
            "UbiquityContent", "UbiquityCore", "UbiquitySystem", "UbiquityTestSupport", crypto,
        ]),
        tests("UbiquityCoordinationTests", ["UbiquityTestSupport", "UbiquityCoordination", "UbiquityCore"]),
        tests("UbiquityWireTests", ["UbiquityWire", "UbiquityCore", protobuf]),
        tests("UbiquityControlTests", ["UbiquityControl", "UbiquityCore"]),
        tests("UbiquityTests", [
            "Ubiquity", "UbiquityControl", "UbiquityCore", "UbiquitySystem", "UbiquityTestSupport",
        ]),
        tests("UbiquityDatabaseTests", [
            "UbiquityDatabase", "DatabaseSimulation", "Ubiquity", "UbiquityCore", "UbiquitySystem",
            "UbiquityTestSupport", grdb,
        ]),
        tests("UbiquitySyncTests", [
            "UbiquitySync", "UbiquityCore", "UbiquitySystem", "UbiquityIndex", "UbiquityContent", "UbiquityWire",
            "UbiquityTestSupport", "UbiquityCloudStore", logging,
        ]),
        tests("UbiquityDoctorTests", [
            "UbiquityDoctor", "UbiquitySync", "UbiquityCore", "UbiquitySystem", "UbiquityIndex", "UbiquityContent",
            "UbiquityTestSupport",
        ]),
        tests("UbiquityVFSTests", [
            "UbiquityVFS", "UbiquityCore", "UbiquitySystem", "UbiquityIndex", "UbiquityContent", "UbiquityCoordination",
            logging,
        ]),
        tests("UbiquityFUSETests", ["UbiquityFUSE", "UbiquityCore", "UbiquitySystem", "CFUSE"]),
        tests("UbiquityCloudStoreTests", [
            "UbiquityCloudStore", "UbiquityCore", "UbiquitySystem", "UbiquityWire", "UbiquityTestSupport", grdb, crypto,
            logging,
        ]),
        tests("UbiquityCloudServerTests", [
            "UbiquityCloudServer", "UbiquityCloudClient", "UbiquityCloudStore", "UbiquityCore", "UbiquitySystem",
            "UbiquityWire", "UbiquityTestSupport", asyncHTTPClient, nioCore, nioEmbedded, nioPosix, nioHTTP1, nioSSL,
            crypto, logging,
        ]),
        tests("UbiquityDaemonTests", [
            "UbiquityDaemon", "UbiquityCloudStore", "UbiquityControl", "UbiquityContent", "UbiquityCore",
            "UbiquityIndex", "UbiquitySystem", "UbiquityWire", "UbiquityTestSupport", logging,
        ]),
        tests("FuzzTests", ["UbiquityFuzzing"]),
        tests("SimulationTests", [
            "UbiquityTestSupport", "UbiquitySync", "UbiquityCore", "UbiquityIndex", "UbiquitySystem",
        ]),
        tests(
            "MountTests", ["UbiquityCore", "UbiquitySystem", "Ubiquity", "UbiquityControl"],
            exclude: ["Support/presenter.py"]),
    ]
)
