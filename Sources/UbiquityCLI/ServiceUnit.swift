import UbiquityCore
import UbiquitySystem

/// The units of systemd.unit(5) that start mounts and clouds. The package installs the same texts.
enum ServiceUnit: String, CaseIterable {
    /// The user's mount on ~/Ubiquity.
    case mount = "ubiquity.service"
    /// A mount of the user on any folder; the instance is the folder's escaped path.
    case mountOnFolder = "ubiquity@.service"
    /// The machine's cloud.
    case cloud = "ubiquity-cloud.service"

    /// Seconds until systemd restarts a daemon that was killed. Its mount is back within two.
    private static let pause = 1
    /// Seconds without a watchdog message until systemd restarts the daemon, which sends one every 5.
    private static let watchdog = 60

    /// - Parameter program: the path of `ubiquity`.
    func text(program: String) -> String {
        let program = Self.quoted(program)
        return switch self {
        case .mount: Self.mountText(program, "%h/Ubiquity")
        case .mountOnFolder: Self.mountText(program, "%f")
        case .cloud: Self.cloudText(program)
        }
    }

    /// A path as systemd reads it: in quotes, with "%" doubled.
    private static func quoted(_ path: String) -> String {
        var result = ""
        for character in path {
            switch character {
            case "\"", "\\": result += "\\\(character)"
            case "%": result += "%%"
            default: result.append(character)
            }
        }
        return "\"\(result)\""
    }

    /// No `PrivateTmp`, no `Protect…`: they would put the mount into a namespace where nobody sees it.
    private static func mountText(_ program: String, _ folder: String) -> String {
        """
        [Unit]
        Description=Documents of ubiquity on \(folder)
        Documentation=man:ubiquity(1) man:ubiquity-mount(1)

        [Service]
        Type=notify
        ExecStartPre=/bin/mkdir -p "\(folder)"
        ExecStart=\(program) mount --foreground "\(folder)"
        ExecStop=\(program) unmount "\(folder)"
        Restart=on-failure
        RestartSec=\(pause)
        WatchdogSec=\(watchdog)
        TimeoutStopSec=90

        [Install]
        WantedBy=default.target

        """
    }

    private static func cloudText(_ program: String) -> String {
        """
        [Unit]
        Description=The cloud of ubiquity
        Documentation=man:ubiquity-serve(1)
        After=network.target

        [Service]
        Type=notify
        ExecStart=\(program) serve --data /var/lib/ubiquity-cloud --listen 127.0.0.1:7070
        ExecReload=/bin/kill -HUP $MAINPID
        Restart=on-failure
        RestartSec=\(pause)
        DynamicUser=yes
        StateDirectory=ubiquity-cloud
        StateDirectoryMode=0700
        NoNewPrivileges=yes
        ProtectSystem=strict
        ProtectHome=yes
        PrivateTmp=yes
        PrivateDevices=yes
        RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
        LimitNOFILE=65536

        [Install]
        WantedBy=multi-user.target

        """
    }

    /// Escapes an absolute path for the name of an instance, as systemd-escape(1) with `--path` does.
    static func escaped(_ path: String) -> String {
        let names = path.split(separator: "/")
        guard !names.isEmpty else { return "-" }
        var result = ""
        for (position, byte) in names.joined(separator: "/").utf8.enumerated() {
            switch byte {
            case UInt8(ascii: "/"): result += "-"
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: ":"), UInt8(ascii: "_"):
                result.unicodeScalars.append(Unicode.Scalar(byte))
            case UInt8(ascii: ".") where position > 0: result += "."
            default: result += "\\x" + Hex.encode([byte])
            }
        }
        return result
    }
}
