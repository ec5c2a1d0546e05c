extension World {
    /// The environment of a program whose clocks a library shifts.
    /// - Parameter variables: the library's, which say how.
    func shiftedClock(_ variables: [String: String]) async throws -> [String: String] {
        // Each process under it leaves a file that has its id when it is killed, and a later one of that id ends at it.
        try await shell(
            """
            for file in /dev/shm/faketime_shm_*; do
                id=${file##*_}
                [ -e "/proc/$id" ] || rm -f "$file" "/dev/shm/sem.faketime_sem_$id"
            done
            """)
        let library = [
            "LD_PRELOAD": "libfaketime.so.1", "LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu/faketime",
        ]
        return library.merging(variables) { $1 }
    }
}
