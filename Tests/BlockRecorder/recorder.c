// block-recorder IMAGE LOG FOLDER: a disk that records the order of its writes and flushes.
//
// FOLDER gets a file `disk`, as large as IMAGE, for a loop device, and a file `position` with the number of records in
// the log. A write goes to IMAGE and, with its bytes, to the end of LOG. A flush is a record without bytes; a loop
// device turns the block layer's flush into an fsync. The earlier IMAGE and a beginning of LOG give every state that a
// power loss at that moment may leave: all writes before the last flush, and any subset of the later ones.
//
// A record: kind (8 bytes: 1 write, 2 flush), offset (8), length (8), bytes. One thread answers, so the records have
// the order of the acknowledgements.
#define _GNU_SOURCE
#define FUSE_USE_VERSION 314
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { write_record = 1, flush_record = 2 };

static int image = -1, record_log = -1;
static off_t image_size;
static uint64_t position;

static int is_disk(const char *path) { return strcmp(path, "/disk") == 0; }
static int is_position(const char *path) { return strcmp(path, "/position") == 0; }

static int get_attributes(const char *path, struct stat *status, struct fuse_file_info *file) {
    (void)file;
    memset(status, 0, sizeof *status);
    status->st_nlink = 1;
    if (strcmp(path, "/") == 0) {
        status->st_mode = S_IFDIR | 0700;
        return 0;
    }
    if (!is_disk(path) && !is_position(path)) return -ENOENT;
    status->st_mode = S_IFREG | 0600;
    status->st_size = is_disk(path) ? image_size : 0;
    return 0;
}

static int read_directory(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset,
                          struct fuse_file_info *file, enum fuse_readdir_flags flags) {
    (void)path, (void)offset, (void)file, (void)flags;
    fill(buffer, "disk", NULL, 0, 0);
    fill(buffer, "position", NULL, 0, 0);
    return 0;
}

static int open_file(const char *path, struct fuse_file_info *file) {
    if (!is_disk(path) && !is_position(path)) return -ENOENT;
    // No page cache between the loop device and the log.
    file->direct_io = 1;
    return 0;
}

static int read_file(const char *path, char *buffer, size_t count, off_t offset, struct fuse_file_info *file) {
    (void)file;
    if (is_disk(path)) {
        ssize_t done = pread(image, buffer, count, offset);
        return done < 0 ? -errno : (int)done;
    }
    char text[32];
    int length = snprintf(text, sizeof text, "%llu\n", (unsigned long long)position);
    if (offset >= length) return 0;
    if (count > (size_t)(length - offset)) count = length - offset;
    memcpy(buffer, text + offset, count);
    return (int)count;
}

static int append(uint64_t kind, uint64_t offset, const char *bytes, uint64_t length) {
    uint64_t head[3] = {kind, offset, length};
    if (write(record_log, head, sizeof head) != sizeof head) return -EIO;
    if (length > 0 && write(record_log, bytes, length) != (ssize_t)length) return -EIO;
    position++;
    return 0;
}

static int write_file(const char *path, const char *bytes, size_t count, off_t offset, struct fuse_file_info *file) {
    (void)file;
    if (!is_disk(path)) return -EPERM;
    if (pwrite(image, bytes, count, offset) != (ssize_t)count) return -EIO;
    int failure = append(write_record, offset, bytes, count);
    return failure ? failure : (int)count;
}

static int sync_file(const char *path, int data_only, struct fuse_file_info *file) {
    (void)data_only, (void)file;
    return is_disk(path) ? append(flush_record, 0, NULL, 0) : 0;
}

static const struct fuse_operations operations = {
    .getattr = get_attributes, .readdir = read_directory, .open = open_file,
    .read = read_file, .write = write_file, .fsync = sync_file,
};

int main(int count, char **arguments) {
    if (count != 4) {
        fprintf(stderr, "usage: block-recorder IMAGE LOG FOLDER\n");
        return 2;
    }
    image = open(arguments[1], O_RDWR | O_CLOEXEC);
    record_log = open(arguments[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct stat status;
    if (image < 0 || record_log < 0 || fstat(image, &status) != 0) {
        perror("block-recorder");
        return 1;
    }
    image_size = status.st_size;
    // In the foreground, with one thread.
    char *options[] = {arguments[0], "-f", "-s", "-o", "fsname=block-recorder", arguments[3], NULL};
    return fuse_main(6, options, &operations, NULL);
}
