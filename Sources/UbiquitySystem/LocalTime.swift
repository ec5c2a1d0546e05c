import Glibc
import UbiquityCore

/// Moments in the time zone of this process (`TZ`, or `/etc/localtime`).
package enum LocalTime {
    /// "2026-11-20 10:11:12", without the zone: for a person at this machine.
    package static func text(_ time: Timestamp) -> String {
        let local = CivilTime.text(seconds: time.seconds + offset(at: time.seconds))
        return local.replacing("T", with: " ")
    }

    /// Seconds that the local clock is ahead of UTC; 0 for a moment that the C library cannot place.
    private static func offset(at seconds: Int64) -> Int64 {
        var moment = time_t(seconds)
        var parts = tm()
        tzset()
        guard localtime_r(&moment, &parts) != nil else { return 0 }
        return Int64(parts.tm_gmtoff)
    }
}
