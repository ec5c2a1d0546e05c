/// Whether a client takes what it is sent. Asked once for each period of silence that is allowed.
struct AnswerProgress {
    /// Bytes that had been handed to the kernel at the last look.
    private var sent: Int

    /// - Parameters:
    ///   - written: Bytes of answers since the connection began.
    ///   - waiting: Those of them that the kernel has not taken yet.
    init(written: Int, waiting: Int) { sent = written - waiting }

    /// Whether bytes wait and none has left since the last look.
    mutating func isStuck(written: Int, waiting: Int) -> Bool {
        let before = sent
        sent = written - waiting
        return waiting > 0 && sent <= before
    }
}
