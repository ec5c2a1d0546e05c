// libfuse3's low-level interface, at the version Debian 12 ships.
#ifndef UBIQUITY_CFUSE_H
#define UBIQUITY_CFUSE_H
#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>
#endif
