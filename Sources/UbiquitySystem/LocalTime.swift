import Glibc
import UbiquityCore

/// Times in the time zone of this process (`TZ`, or `/etc/localtime`).
package enum LocalTime {
    /// "2026-11-20 10:11:12", without the zone: for a user at this machine.
    package static func text(_ time: Timestamp) -> String {
        let local = CivilTime.text(seconds: time.seconds + offset(at: time.seconds))
        return local.replacing("T", with: " ")
    }

    /// "10:11:12": a time of today, for a user at this machine.
    package static func clock(_ time: Timestamp) -> String { String(text(time).suffix(8)) }

    /// Returns how many seconds the local time is ahead of UTC; 0 if the C library cannot tell.
    private static func offset(at seconds: Int64) -> Int64 {
        var moment = time_t(seconds)
        var parts = tm()
        tzset()
        guard localtime_r(&moment, &parts) != nil else { return 0 }
        return Int64(parts.tm_gmtoff)
    }
}
